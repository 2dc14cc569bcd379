#pragma once

#include "heddle/core/normal.h"
#include "heddle/kernels/device/vector.cuh"

/// The draws of core/rng.h, whose functions run on devices as they are: the same bits everywhere.
namespace heddle {

inline constexpr int kWordsPerBlock = 4;  ///< of Philox4x32

/// The words of Philox block `index` of the stream, in registers.
__device__ __forceinline__ void draw_words(const Rng& rng, int64_t index,
                                           uint32_t (&words)[kWordsPerBlock]) {
  const auto block = rng.block(static_cast<uint32_t>(index));
  HEDDLE_UNROLL
  for (int i = 0; i < kWordsPerBlock; ++i) words[i] = block[static_cast<size_t>(i)];
}

}  // namespace heddle
