#pragma once

#include "heddle/kernels/conv2d.h"

namespace heddle::cpu {

/// Whether conv2d_weight_by_pairs can, and input channels leave few of its lanes empty.
bool wants_weight_by_pairs(const Conv2dGeometry& geometry);
/// conv2d_backward_weight of bfloat16 by the processor's products of pairs.
void conv2d_weight_by_pairs(const Conv2dBackwardWeightArgs& args);

}  // namespace heddle::cpu
