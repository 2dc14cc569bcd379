#pragma once

#include <bit>
#include <cmath>

#include "heddle/kernels/device/shared.cuh"
#include "heddle/kernels/device/vector.cuh"

/// Reductions over the threads of a warp and of a block, in an order that depends on their numbers
/// alone: the same bits in each run. All threads call them, and all are given the result.
namespace heddle {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

/// The value of lane (this ^ mask). T: any type of a multiple of 4 bytes.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_xor_sync(kAllLanes, value, mask);
  } else {
    struct Words {
      uint32_t word[sizeof(T) / 4];
    };
    Words words = std::bit_cast<Words>(value);
    HEDDLE_UNROLL
    for (size_t i = 0; i < sizeof(T) / 4; ++i)
      words.word[i] = __shfl_xor_sync(kAllLanes, words.word[i], mask);
    return std::bit_cast<T>(words);
  }
}

/// combine over the lanes whose numbers differ below `width`, a power of two up to 32. `combine` is
/// commutative, so that all of them have the same bits.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine, int width = kWarpSize) {
  for (int mask = width / 2; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

/// combine over a block of kThreads threads, a multiple of 32.
template <int kThreads, class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, const Combine& combine) {
  static_assert(kThreads % kWarpSize == 0);
  constexpr int kWarps = kThreads / kWarpSize;
  HEDDLE_SHARED(T, of_warp, [kWarps]);
  value = warp_reduce(value, combine);
  const int thread = static_cast<int>(threadIdx.x + blockDim.x * threadIdx.y);
  if (thread % kWarpSize == 0) of_warp[thread / kWarpSize] = value;
  __syncthreads();
  T result = of_warp[0];
  for (int warp = 1; warp < kWarps; ++warp) result = combine(result, of_warp[warp]);
  __syncthreads();  // the next reduction may write
  return result;
}

struct SumOf {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// The larger one; of a number and NaN the number.
struct MaxOf {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, SumOf());
}
__device__ __forceinline__ float warp_max(float value) { return warp_reduce(value, MaxOf()); }

template <int kThreads, class T>
__device__ __forceinline__ T block_sum(T value) {
  return block_reduce<kThreads>(value, SumOf());
}
template <int kThreads>
__device__ __forceinline__ float block_max(float value) {
  return block_reduce<kThreads>(value, MaxOf());
}

}  // namespace heddle
