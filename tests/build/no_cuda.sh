#!/usr/bin/env bash
# no_cuda.sh PROGRAM: fails where a program of a build without CUDA has to do with it all the same.
set -uo pipefail
linked=$(ldd "$1" | grep -E '^[[:space:]]*lib(cuda|cublas|cudnn|nv)')
called=$(nm --undefined-only "$1" | grep -E ' (cuda|cublas|cudnn)[A-Z]')
if [ -n "$linked$called" ]; then
  echo "$1: $linked $called"
  exit 1
fi
