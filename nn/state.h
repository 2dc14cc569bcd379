#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// Tensors with their names, in an order that is kept.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// What a state must hold under one name.
struct StateSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// Errors: names of `expected` that `found` lacks, names it has too many or twice, shapes and
/// dtypes that differ: all of them in one message that begins with `op`.
void check_state(std::string_view op, const std::vector<StateSpec>& expected,
                 const NamedTensors& found);

/// Copies row-major `source` into `target`, which has as many elements and any strides.
void load_tensor(const Tensor& target, const Tensor& source);

/// `tensor` in row-major order, without history: itself (shared) where it is stored so.
Tensor state_tensor(const Tensor& tensor);

}  // namespace heddle
