#pragma once

#include "heddle/core/view.h"
#include "heddle/kernels/no_cuda_kernel.h"

namespace heddle {

/// target = source, converted. Shapes are equal; strides are any on either side, 0 among the
/// source's for broadcasting. The two do not overlap.
struct CopyArgs {
  View target;
  View source;
};

namespace cpu {
void copy(const CopyArgs& args);
}  // namespace cpu

HEDDLE_NO_CUDA_KERNEL(copy, CopyArgs)

}  // namespace heddle
