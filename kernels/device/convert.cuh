#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "heddle/kernels/host/convert.h"

/// Conversions between element types. On a device by its own instructions, under cudasim by core's
/// code: both round to nearest even and keep subnormals.
namespace heddle {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(BFloat16 x) { return x; }
__device__ __forceinline__ float to_float(Float16 x) {
#ifdef __CUDASIM__
  return x;
#else
  return __half2float(__ushort_as_half(x.bits));
#endif
}

template <class T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
#ifdef __CUDASIM__
    return T(x);
#else
    T result;
    if constexpr (std::is_same_v<T, Float16>) {
      result.bits = __half_as_ushort(__float2half_rn(x));
    } else {
      static_assert(std::is_same_v<T, BFloat16>);
      result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    }
    return result;
#endif
  }
}

/// Any element type to any other, as cpu::convert does.
template <class To, class From>
__device__ __forceinline__ To convert(From value) {
  constexpr bool kFrom16 = std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>;
  constexpr bool kTo16 = std::is_same_v<To, Float16> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kFrom16) {
    return convert<To>(to_float(value));
  } else if constexpr (kTo16) {
    return from_float<To>(static_cast<float>(value));
  } else {
    return cpu::convert<To>(value);
  }
}

}  // namespace heddle
