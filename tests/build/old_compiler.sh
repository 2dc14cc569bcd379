#!/usr/bin/env bash
# tests/build/old_compiler.sh COMPILER WORK: a compiler that says it is older than Heddle takes stops the
# configuration with one message. COMPILER is a g++.
set -euo pipefail
compiler=$1
work=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
printf '#!/bin/sh\nexec "%s" -U__GNUC__ -D__GNUC__=11 "$@"\n' "$compiler" >"$work/g++-old"
chmod +x "$work/g++-old"
if output=$(cmake -G Ninja -S "$root" -B "$work/build" -DCMAKE_CXX_COMPILER="$work/g++-old" -DHEDDLE_CUDA=OFF 2>&1) ||
  ! grep -q 'needs g++ 12 or clang++ 14' <<<"$output"; then
  echo "$output"
  echo "old_compiler.sh: expected a refusal of g++ 11"
  exit 1
fi
