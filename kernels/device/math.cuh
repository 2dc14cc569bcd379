#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "heddle/core/error.h"
#include "heddle/kernels/vector_math.h"

namespace heddle {

/// Upper half of a product.
__device__ __forceinline__ uint64_t multiply_high(uint64_t a, uint64_t b) {
#ifdef __CUDASIM__
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
#else
  return __umul64hi(a, b);
#endif
}

/// Division by a number that the host knows, in a multiplication and a shift. Right for numerators
/// of 0 to 2^63 - 1. Source: Granlund and Montgomery, "Division by invariant integers using
/// multiplication", PLDI 1994: with m = ceil(2^(63+s) / d), 2^s >= d, n / d = n m >> (63 + s).
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int64_t d) : divisor_(d) {
    HEDDLE_ASSERT(d > 0);
    __extension__ using Wide = unsigned __int128;
    while ((uint64_t{1} << shift_) < static_cast<uint64_t>(d)) ++shift_;
    const Wide numerator = static_cast<Wide>(1) << (63 + shift_);
    multiplier_ = static_cast<uint64_t>((numerator + static_cast<uint64_t>(d) - 1) / d);
  }

  __device__ __forceinline__ int64_t value() const { return divisor_; }
  __device__ __forceinline__ int64_t divide(int64_t n) const {
    return static_cast<int64_t>(multiply_high(static_cast<uint64_t>(n) << 1, multiplier_) >>
                                shift_);
  }
  /// n becomes n / d; returns the remainder.
  __device__ __forceinline__ int64_t split(int64_t& n) const {
    const int64_t quotient = divide(n);
    const int64_t remainder = n - quotient * divisor_;
    n = quotient;
    return remainder;
  }

 private:
  int64_t divisor_ = 1;
  uint64_t multiplier_ = uint64_t{1} << 63;
  int shift_ = 0;
};

}  // namespace heddle
