#pragma once

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

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

namespace cuda {
void copy(const CopyArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
