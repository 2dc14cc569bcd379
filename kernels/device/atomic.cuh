#pragma once

// Atomic updates. Integers only where the result must not depend on the order of threads: a float
// sum by atomics differs from run to run.
#include <cstdint>

namespace heddle {

__device__ __forceinline__ void atomic_add(int64_t* address, int64_t value) {
  // Two's complement: the unsigned sum has the same bits.
  atomicAdd(reinterpret_cast<unsigned long long*>(address), static_cast<unsigned long long>(value));
}

/// Raises *address to value where it is less; returns what it was. For floats that are not negative
/// and not NaN, whose bits are ordered as integers.
__device__ __forceinline__ float atomic_max_not_negative(float* address, float value) {
  return __int_as_float(atomicMax(reinterpret_cast<int*>(address), __float_as_int(value)));
}

}  // namespace heddle
