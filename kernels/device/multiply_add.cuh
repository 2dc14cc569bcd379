#pragma once

#include <cuda_runtime.h>

namespace heddle {

/// One instruction on a device; under cudasim without the call of fmaf, for speed.
__device__ __forceinline__ float multiply_add(float a, float b, float sum) {
#ifdef __CUDASIM__
  return sum + a * b;
#else
  return fmaf(a, b, sum);
#endif
}

}  // namespace heddle
