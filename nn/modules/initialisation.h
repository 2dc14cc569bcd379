#pragma once

#include "heddle/core/tensor.h"

namespace heddle {

/// U(-b, b) with b = 1/sqrt(fan_in), drawn in row-major order from the next initial stream: what
/// PyTorch gives weights (kaiming_uniform with a = sqrt(5)) and biases of Conv2d and Linear.
Tensor initial_values(const Shape& shape, int64_t fan_in,
                      MemoryFormat format = MemoryFormat::kContiguous);

}  // namespace heddle
