#pragma once

#include "heddle/core/stream.h"
#include "heddle/kernels/conv2d.h"

namespace heddle::cuda {

/// The 16-bit half of kernels/conv2d.cu, in kernels/conv2d_16bit.cu: float16 and bfloat16, on the
/// tensor cores.
void conv2d_forward_16bit(const Conv2dForwardArgs& args, StreamRef stream);
void conv2d_backward_data_16bit(const Conv2dBackwardDataArgs& args, StreamRef stream);
void conv2d_backward_weight_16bit(const Conv2dBackwardWeightArgs& args, StreamRef stream);

/// Errors: coordinates, those of the padding too, that do not stay within 2^29.
void check_conv2d_sizes(const char* op, const Conv2dGeometry& geometry);

/// One axis of the data gradient for one phase of the stride: the input positions
/// first + stride i, i < count, are reached by taps tap + tap_step j, j < taps, from output
/// positions i + offset + step j.
struct Conv2dPhase {
  int64_t first, count, tap, tap_step, taps, offset, step;
};

/// `first` < stride. Taps are 0 where none meets the phase.
Conv2dPhase find_phase(int64_t first, int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                       int64_t dilation);

}  // namespace heddle::cuda
