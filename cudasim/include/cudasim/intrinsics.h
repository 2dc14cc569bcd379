#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cudasim/qualifiers.h"
#include "cudasim/types.h"

// Arithmetic of CUDA's math API. Roundings are the device's; functions that a device only
// approximates (__expf and the like) are exact to float32 here.

#define CUDASIM_MIN_MAX(type)                                                  \
  __forceinline__ constexpr type min(type a, type b) { return b < a ? b : a; } \
  __forceinline__ constexpr type max(type a, type b) { return a < b ? b : a; }
CUDASIM_MIN_MAX(int)
CUDASIM_MIN_MAX(unsigned)
CUDASIM_MIN_MAX(long)
CUDASIM_MIN_MAX(unsigned long)
CUDASIM_MIN_MAX(long long)
CUDASIM_MIN_MAX(unsigned long long)
#undef CUDASIM_MIN_MAX
// As fminf and fmaxf: a NaN loses against a number.
__forceinline__ float min(float a, float b) { return fminf(a, b); }
__forceinline__ float max(float a, float b) { return fmaxf(a, b); }
__forceinline__ double min(double a, double b) { return fmin(a, b); }
__forceinline__ double max(double a, double b) { return fmax(a, b); }

// Bits.
__forceinline__ int __float_as_int(float x) { return std::bit_cast<int>(x); }
__forceinline__ unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
__forceinline__ float __int_as_float(int x) { return std::bit_cast<float>(x); }
__forceinline__ float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
__forceinline__ long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
__forceinline__ double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
__forceinline__ int __popc(unsigned x) { return std::popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return std::popcount(x); }
__forceinline__ int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
__forceinline__ int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555U) | (x & 0x55555555U) << 1;
  x = (x >> 2 & 0x33333333U) | (x & 0x33333333U) << 2;
  x = (x >> 4 & 0x0f0f0f0fU) | (x & 0x0f0f0f0fU) << 4;
  return __builtin_bswap32(x);
}
__forceinline__ unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xfU;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7U))) & 0xffU;
    if (nibble & 8U) byte = byte & 0x80U ? 0xffU : 0;
    result |= byte << (8 * i);
  }
  return result;
}
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31U) >> 32);
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31U));
}

// Integers.
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
__forceinline__ int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<int64_t>(a) * b >> 32);
}
__forceinline__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
__forceinline__ int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }

// Floats.
__forceinline__ float __fadd_rn(float a, float b) { return a + b; }
__forceinline__ float __fsub_rn(float a, float b) { return a - b; }
__forceinline__ float __fmul_rn(float a, float b) { return a * b; }
__forceinline__ float __fdiv_rn(float a, float b) { return a / b; }
__forceinline__ float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__forceinline__ float __fsqrt_rn(float x) { return sqrtf(x); }
__forceinline__ float __frcp_rn(float x) { return 1.0F / x; }
__forceinline__ float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(x)));
}
__forceinline__ double __dadd_rn(double a, double b) { return a + b; }
__forceinline__ double __dmul_rn(double a, double b) { return a * b; }
__forceinline__ double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
__forceinline__ float __fdividef(float a, float b) { return a / b; }
__forceinline__ float __expf(float x) { return expf(x); }
__forceinline__ float __exp10f(float x) { return powf(10.0F, x); }
__forceinline__ float __logf(float x) { return logf(x); }
__forceinline__ float __log2f(float x) { return log2f(x); }
__forceinline__ float __log10f(float x) { return log10f(x); }
__forceinline__ float __powf(float x, float y) { return powf(x, y); }
__forceinline__ float __sinf(float x) { return sinf(x); }
__forceinline__ float __cosf(float x) { return cosf(x); }
__forceinline__ float __tanf(float x) { return tanf(x); }
__forceinline__ void __sincosf(float x, float* sine, float* cosine) {
  *sine = sinf(x);
  *cosine = cosf(x);
}
__forceinline__ float __saturatef(float x) { return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F; }
__forceinline__ float rsqrtf(float x) { return __frsqrt_rn(x); }
__forceinline__ double rsqrt(double x) { return 1.0 / sqrt(x); }

// Float to integer: NaN gives 0, what does not fit the nearest end.
namespace cudasim {
template <class To, class From>
__forceinline__ To saturating_cast(From rounded) {
  if (rounded != rounded) return 0;
  // The upper end as a float is one more than it, or itself where it is exact; either way >= is
  // right.
  if (rounded >= static_cast<From>(std::numeric_limits<To>::max())) {
    return std::numeric_limits<To>::max();
  }
  if (rounded <= static_cast<From>(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  return static_cast<To>(rounded);
}
}  // namespace cudasim

#define CUDASIM_FLOAT_TO(name, type)                      \
  __forceinline__ type __float2##name##_rn(float x) {     \
    return cudasim::saturating_cast<type>(nearbyintf(x)); \
  }                                                       \
  __forceinline__ type __float2##name##_rz(float x) {     \
    return cudasim::saturating_cast<type>(truncf(x));     \
  }                                                       \
  __forceinline__ type __float2##name##_rd(float x) {     \
    return cudasim::saturating_cast<type>(floorf(x));     \
  }                                                       \
  __forceinline__ type __float2##name##_ru(float x) {     \
    return cudasim::saturating_cast<type>(ceilf(x));      \
  }
CUDASIM_FLOAT_TO(int, int)
CUDASIM_FLOAT_TO(uint, unsigned)
CUDASIM_FLOAT_TO(ll, long long)
CUDASIM_FLOAT_TO(ull, unsigned long long)
#undef CUDASIM_FLOAT_TO
__forceinline__ float __int2float_rn(int x) { return static_cast<float>(x); }
__forceinline__ float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
__forceinline__ float __ll2float_rn(long long x) { return static_cast<float>(x); }
__forceinline__ float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
__forceinline__ float __double2float_rn(double x) { return static_cast<float>(x); }

// Loads and stores with a hint for the cache: plain ones of a scalar, which the hooks see.
template <class T>
__forceinline__ T __ldg(const T* address) {
  static_assert(sizeof(T) <= 8, "vectors are loaded through kernels/device/vector.cuh");
  return *address;
}
template <class T>
__forceinline__ T __ldcs(const T* address) {
  static_assert(sizeof(T) <= 8, "vectors are loaded through kernels/device/vector.cuh");
  return *address;
}
template <class T>
__forceinline__ void __stcs(T* address, T value) {
  static_assert(sizeof(T) <= 8, "vectors are stored through kernels/device/vector.cuh");
  *address = value;
}
