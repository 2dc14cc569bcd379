#!/usr/bin/env bash
# isa_symbols.sh ISA OBJECT...: fails where an object compiled for one instruction set shares a symbol
# with the rest of the program. The linker keeps one copy of such a symbol (an inline function, a
# template of the standard library), and that may be the AVX-512 one on a machine without it.
set -euo pipefail
isa=$1
shift
shared=$(nm --demangle --defined-only "$@" | awk '$2 ~ /^[WVuvw]$/' | grep -v "heddle::.*isa_$isa::" || true)
if [ -n "$shared" ]; then
  echo "Shared symbols in the objects of kernels/host/isa for $isa:"
  echo "$shared"
  exit 1
fi
