#pragma once

#include "heddle/core/view.h"
#include "heddle/kernels/no_cuda_kernel.h"

namespace heddle {

/// Every element of y becomes `value`, converted to y's dtype.
struct FillArgs {
  View y;  // any strides
  double value;
};

/// y[i] = i.
struct ArangeArgs {
  View y;  // (n), contiguous
};

namespace cpu {
void fill(const FillArgs& args);
void arange(const ArangeArgs& args);
}  // namespace cpu

HEDDLE_NO_CUDA_KERNEL(fill, FillArgs)
HEDDLE_NO_CUDA_KERNEL(arange, ArangeArgs)

}  // namespace heddle
