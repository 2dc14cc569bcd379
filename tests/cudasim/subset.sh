#!/bin/sh
# usage: subset.sh COMPILER INCLUDE-FOLDER; a call that cudasim lacks does not compile.
compiler=$1
include=$2
compiles() {
  printf '#include <cuda_runtime.h>\nint main() { return %s; }\n' "$1" |
    "$compiler" -std=c++20 -fsyntax-only -I "$include" -x c++ - 2>/dev/null
}
failed=0
for call in 'cudaDeviceSynchronize()' 'cudaStreamSynchronize(nullptr)'; do
  compiles "$call" || { echo "$call does not compile"; failed=1; }
done
for call in 'cudaMallocManaged((void**)0, 8)' 'cudaThreadSynchronize()' \
  'cudaMemcpyToSymbol("a", "b", 1)' 'cudaLaunchKernel(0, 1, 1, 0, 0, 0)' \
  'cudaHostRegister(0, 1, 0)'; do
  if compiles "$call"; then
    echo "$call compiles, but cudasim has no such call"
    failed=1
  fi
done
exit $failed
