#pragma once

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

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

namespace cuda {
void fill(const FillArgs& args, StreamRef stream);
void arange(const ArangeArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
