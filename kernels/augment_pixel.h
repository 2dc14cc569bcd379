#pragma once

#include "heddle/kernels/augment.h"

namespace heddle::augment_pixel {

inline constexpr int kChannels = 3;
inline constexpr int kBytes = 256;  // of a channel's table

/// Whether the cutout square of `side` covers (y, x).
HEDDLE_INLINE bool is_cut(const AugmentDraw& draw, int64_t side, int64_t y, int64_t x) {
  const int64_t top = draw.cut_row - side / 2;
  const int64_t left = draw.cut_column - side / 2;
  return y >= top && y < top + side && x >= left && x < left + side;
}

/// Place within a plane that (y, x) shows; -1 outside of the picture.
HEDDLE_INLINE int64_t source_of(const AugmentDraw& draw, int64_t height, int64_t width, int64_t y,
                                int64_t x) {
  const int64_t row = y + draw.down;
  const int64_t column = (draw.flip != 0 ? width - 1 - x : x) + draw.right;
  if (row < 0 || row >= height || column < 0 || column >= width) return -1;
  return row * width + column;
}

}  // namespace heddle::augment_pixel
