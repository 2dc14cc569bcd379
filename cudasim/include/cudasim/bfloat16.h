#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cudasim/intrinsics.h"
#include "cudasim/qualifiers.h"
#include "cudasim/rounding.h"

// bfloat16 of cuda_bf16.h, as half.h has float16.

namespace cudasim {

__forceinline__ uint16_t bfloat16_from_float(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  if ((word & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  return static_cast<uint16_t>((word + 0x7fffU + (word >> 16 & 1U)) >> 16);
}

__forceinline__ float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace cudasim

// NOLINTBEGIN: the names are CUDA's.
struct __nv_bfloat16_raw {
  unsigned short x;
};

struct __nv_bfloat16 {
  uint16_t x;

  __nv_bfloat16() = default;
  __forceinline__ __nv_bfloat16(float value) : x(cudasim::bfloat16_from_float(value)) {}
  __forceinline__ __nv_bfloat16(__nv_bfloat16_raw raw) : x(raw.x) {}
  __forceinline__ operator float() const { return cudasim::bfloat16_to_float(x); }
  __forceinline__ operator __nv_bfloat16_raw() const { return {x}; }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define CUDASIM_NARROW __nv_bfloat16
#define CUDASIM_NARROW2 __nv_bfloat162
#define CUDASIM_NARROW_NAME(prefix, suffix) prefix##bfloat16##suffix
#define CUDASIM_NARROW_DIGITS 8
#define CUDASIM_NARROW_MIN_EXPONENT (-126)
#include "cudasim/narrow_float.inc"
#undef CUDASIM_NARROW
#undef CUDASIM_NARROW2
#undef CUDASIM_NARROW_NAME
#undef CUDASIM_NARROW_DIGITS
#undef CUDASIM_NARROW_MIN_EXPONENT

__forceinline__ __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return __nv_bfloat16_raw{bits};
}
__forceinline__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.x; }
// NOLINTEND
