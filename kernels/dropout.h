#pragma once

#include "heddle/core/rng.h"
#include "heddle/core/stream.h"

namespace heddle {

/// y = keep ? scale * x : 0, and the mask of kept elements (1 or 0). Element i in logical order
/// (image, plane, pixel) is dropped where draw first + i of `rng` is below `probability`; it is at
/// (image, pixel, plane): a contiguous tensor is one image of one plane, a channels-last one N
/// images of C planes of H * W pixels. With `steps`, one number in memory of the CUDA device, `rng`
/// is the stream whose `a` is greater by it: what a captured step draws differs at each replay.
struct DropoutForwardArgs {
  DType dtype;
  int64_t images, planes, pixels;
  float probability;
  double scale;
  Rng rng;
  void* y;
  uint8_t* mask;  // may be null
  const void* x;
  int64_t first = 0;
  const int64_t* steps = nullptr;
};

/// dx = mask ? scale * dy : 0, all in one storage order.
struct DropoutBackwardArgs {
  DType dtype;
  int64_t n;
  double scale;
  void* dx;
  const void* dy;
  const uint8_t* mask;
};

namespace cpu {
void dropout_forward(const DropoutForwardArgs& args);
void dropout_backward(const DropoutBackwardArgs& args);
}  // namespace cpu

namespace cuda {
void dropout_forward(const DropoutForwardArgs& args, StreamRef stream);
void dropout_backward(const DropoutBackwardArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
