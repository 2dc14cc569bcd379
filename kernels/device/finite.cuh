#pragma once

#include <cuda_runtime.h>

#include "heddle/core/dtype.h"

namespace heddle {

/// The unsigned integer of T's size.
template <class T>
using FloatWord = std::conditional_t<sizeof(T) == 2, uint16_t,
                                     std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class T>
inline constexpr FloatWord<T> kExponentBits = 0;
template <>
inline constexpr uint32_t kExponentBits<float> = 0x7f800000U;
template <>
inline constexpr uint64_t kExponentBits<double> = 0x7ff0000000000000U;
template <>
inline constexpr uint16_t kExponentBits<BFloat16> = 0x7f80U;
template <>
inline constexpr uint16_t kExponentBits<Float16> = 0x7c00U;

/// An operation of reduction.cuh over the bits of T: true where none has an exponent of all ones.
template <class T>
struct AllFinite {
  using Value = uint32_t;  // whether one has
  using Total = uint32_t;
  using Result = bool;

  __device__ __forceinline__ Value identity() const { return 0; }
  __device__ __forceinline__ Value take(Value found, FloatWord<T> bits, int64_t) const {
    return found | ((bits & kExponentBits<T>) == kExponentBits<T> ? 1U : 0U);
  }
  __device__ __forceinline__ Total total(Value found) const { return found; }
  __device__ __forceinline__ Total combine(Total a, Total b) const { return a | b; }
  __device__ __forceinline__ bool result(Total found) const { return found == 0; }
};

}  // namespace heddle
