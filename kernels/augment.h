#pragma once

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// What is done to one picture, as ImageTransform::draw draws it. Units: pixels.
struct AugmentDraw {
  int32_t down = 0, right = 0;          // of the part that is cut out, negative: up, left
  int32_t cut_row = 0, cut_column = 0;  // centre of the square that is set to 0
  int32_t flip = 0;                     // 1: mirrored left to right
};

/// out[i, y, x, c] = 0 within the cutout square of picture i, else table[c, byte] for the byte of
/// planes[i, c] at row y + down, column x + right (width - 1 - x + right where mirrored), and for
/// byte 0 outside of the picture. With `indices`, picture i is planes[indices[i]].
struct AugmentArgs {
  void* out;                 // (n, height, width, 3), dtype: float32, bfloat16 or float16
  const uint8_t* planes;     // (n, 3, height, width), or with `indices` more of them
  const void* table;         // (3, 256), dtype: normalisation of each byte
  const AugmentDraw* draws;  // (n)
  int64_t n, height, width;
  int64_t cutout;  // side of the square; 0: none
  DType dtype;
  const int64_t* indices = nullptr;  // (n)
};

namespace cpu {
void augment(const AugmentArgs& args);
}  // namespace cpu

namespace cuda {
void augment(const AugmentArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
