#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "cudasim/qualifiers.h"

namespace cudasim {

enum class Shuffle { kIndex, kUp, kDown, kXor };

// All lanes of `mask` must come to the same call with the same mask.
uint64_t warp_shuffle(unsigned mask, uint64_t value, Shuffle mode, unsigned operand, int width);
unsigned warp_ballot(unsigned mask, bool predicate);
unsigned warp_match_any(unsigned mask, uint64_t value);
unsigned warp_match_all(unsigned mask, uint64_t value, int* all_equal);

/// Shuffles move 4 or 8 bytes, or 2.
template <class T>
__forceinline__ T shuffle(unsigned mask, T value, Shuffle mode, unsigned operand, int width) {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(
        warp_shuffle(mask, std::bit_cast<uint64_t>(value), mode, operand, width));
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<uint32_t>(
        warp_shuffle(mask, std::bit_cast<uint32_t>(value), mode, operand, width)));
  } else {
    static_assert(sizeof(T) == 2, "a shuffle moves 2, 4 or 8 bytes");
    return std::bit_cast<T>(static_cast<uint16_t>(
        warp_shuffle(mask, std::bit_cast<uint16_t>(value), mode, operand, width)));
  }
}

template <class T>
concept WarpValue = sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8;

template <class T>
__forceinline__ uint64_t match_bits(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else {
    static_assert(sizeof(T) == 4, "a match compares 4 or 8 bytes");
    return std::bit_cast<uint32_t>(value);
  }
}

}  // namespace cudasim

template <cudasim::WarpValue T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source_lane, int width = 32) {
  return cudasim::shuffle(mask, value, cudasim::Shuffle::kIndex, static_cast<unsigned>(source_lane),
                          width);
}
template <cudasim::WarpValue T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return cudasim::shuffle(mask, value, cudasim::Shuffle::kUp, delta, width);
}
template <cudasim::WarpValue T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return cudasim::shuffle(mask, value, cudasim::Shuffle::kDown, delta, width);
}
template <cudasim::WarpValue T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  return cudasim::shuffle(mask, value, cudasim::Shuffle::kXor, static_cast<unsigned>(lane_mask),
                          width);
}

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate != 0);
}
__forceinline__ int __any_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate != 0) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate) {
  return cudasim::warp_ballot(mask, predicate == 0) == 0;
}

template <class T>
__forceinline__ unsigned __match_any_sync(unsigned mask, T value) {
  return cudasim::warp_match_any(mask, cudasim::match_bits(value));
}
template <class T>
__forceinline__ unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  return cudasim::warp_match_all(mask, cudasim::match_bits(value), all_equal);
}

// Reductions of sm_80 over the lanes of a mask.
unsigned __reduce_add_sync(unsigned mask, unsigned value);
unsigned __reduce_min_sync(unsigned mask, unsigned value);
unsigned __reduce_max_sync(unsigned mask, unsigned value);
int __reduce_add_sync(unsigned mask, int value);
int __reduce_min_sync(unsigned mask, int value);
int __reduce_max_sync(unsigned mask, int value);
unsigned __reduce_and_sync(unsigned mask, unsigned value);
unsigned __reduce_or_sync(unsigned mask, unsigned value);
unsigned __reduce_xor_sync(unsigned mask, unsigned value);

/// Waits for the lanes of `mask` and orders their memory accesses; the other collectives order
/// none.
void __syncwarp(unsigned mask = 0xffffffffU);
