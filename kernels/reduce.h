#pragma once

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

enum class ReduceOp { kSum, kMax };

/// y = scale * sum of x, or the maximum of x (NaN wins), over the dimensions where y has size 1 and
/// x has not. Both have the same number of dimensions; y has x's dtype, or int64 for the sum of
/// integers. The sum of nothing is 0, the maximum of nothing is not asked for.
struct ReduceArgs {
  View y;
  View x;
  ReduceOp op;
  double scale = 1.0;  // sums of floats only
};

/// index (int64) = the place of the first maximum of x (or of the first NaN) over the dimensions
/// where index has size 1 and x has not, counted in logical row-major order of those dimensions.
struct ArgmaxArgs {
  View index;
  View x;
};

/// dx[place] = dy for the place that `index` (as of ArgmaxArgs) names. dx is zero before.
struct MaxBackwardArgs {
  View dx;
  View dy;
  View index;
};

/// *finite = no element of x (dense, floating) is NaN or infinite.
struct AllFiniteArgs {
  bool* finite;
  const void* x;
  int64_t n;
  DType dtype;
};

namespace cpu {
void reduce(const ReduceArgs& args);
void argmax(const ArgmaxArgs& args);
void max_backward(const MaxBackwardArgs& args);
void all_finite(const AllFiniteArgs& args);
}  // namespace cpu

namespace cuda {
void reduce(const ReduceArgs& args, StreamRef stream);
void argmax(const ArgmaxArgs& args, StreamRef stream);
void max_backward(const MaxBackwardArgs& args, StreamRef stream);
void all_finite(const AllFiniteArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
