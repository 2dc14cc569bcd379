#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cudasim/intrinsics.h"
#include "cudasim/qualifiers.h"
#include "cudasim/rounding.h"

// float16 of cuda_fp16.h. Conversions round to nearest even by integer work, so that a float unit
// that flushes subnormals changes nothing; arithmetic is float32's, rounded once more, which is the
// rounding of the exact result. A NaN result is 0x7fff, as on a device.

namespace cudasim {

__forceinline__ uint16_t half_from_float(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = word >> 16 & 0x8000U;
  const uint32_t magnitude = word & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fff;
  uint32_t bits;
  if (magnitude >= 0x47800000U) {  // 65536 and more
    bits = 0x7c00U;
  } else if (magnitude < 0x33000000U) {  // below half the smallest subnormal
    bits = 0;
  } else if (magnitude < 0x38800000U) {  // subnormal: the mantissa in units of 2^-24
    const uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    const uint32_t shift = 126U - (magnitude >> 23);
    const uint32_t rest = mantissa & ((1U << shift) - 1);
    const uint32_t half = 1U << (shift - 1);
    bits = mantissa >> shift;
    bits += rest > half || (rest == half && (bits & 1U));
  } else {
    bits = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  }
  return static_cast<uint16_t>(sign | bits);
}

__forceinline__ float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  uint32_t word = magnitude << 13;
  if (magnitude >= 0x7c00U) {
    word |= 0x7f800000U;
  } else if (magnitude >= 0x400U) {
    word += 0x38000000U;
  } else if (magnitude != 0) {
    const uint32_t shift = static_cast<uint32_t>(std::countl_zero(magnitude)) - 8;
    word = (magnitude << shift & 0x7fffffU) | (126U - shift) << 23;
  }
  return std::bit_cast<float>(sign | word);
}

}  // namespace cudasim

// NOLINTBEGIN: the names are CUDA's.
struct __half_raw {
  unsigned short x;
};

struct __half {
  uint16_t x;

  __half() = default;
  __forceinline__ __half(float value) : x(cudasim::half_from_float(value)) {}
  __forceinline__ __half(__half_raw raw) : x(raw.x) {}
  __forceinline__ operator float() const { return cudasim::half_to_float(x); }
  __forceinline__ operator __half_raw() const { return {x}; }
};
struct alignas(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

#define CUDASIM_NARROW __half
#define CUDASIM_NARROW2 __half2
#define CUDASIM_NARROW_NAME(prefix, suffix) prefix##half##suffix
#define CUDASIM_NARROW_DIGITS 11
#define CUDASIM_NARROW_MIN_EXPONENT (-14)
#include "cudasim/narrow_float.inc"
#undef CUDASIM_NARROW
#undef CUDASIM_NARROW2
#undef CUDASIM_NARROW_NAME
#undef CUDASIM_NARROW_DIGITS
#undef CUDASIM_NARROW_MIN_EXPONENT

__forceinline__ __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
__forceinline__ unsigned short __half_as_ushort(__half value) { return value.x; }
// NOLINTEND
