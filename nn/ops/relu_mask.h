#pragma once

#include "heddle/core/tensor.h"

namespace heddle {

/// The gradient below a fused ReLU: dy where y > 0 (or y is NaN), else 0. Both dense in the same
/// storage order.
Tensor mask_by_relu(const Tensor& dy, const Tensor& y);

}  // namespace heddle
