#pragma once

#include <optional>

#include "heddle/core/tensor.h"

namespace heddle {

/// While it lives, convolutions and linear layers (modules) of this thread compute in `dtype`: they
/// convert what they are given and their own parameters, which stay float32, as do the gradients
/// and the optimizer's state. Layers between pass on the dtype they get; losses, statistics and
/// sums are kept in float32 inside. Evaluation and training alike.
/// Numerics: bfloat16 has float32's range and needs no loss scaling; float16 has not.
/// Errors: a dtype other than bfloat16, float16 and float32 (which switches an outer one off).
class Autocast {
 public:
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> previous_;
};

/// `x` in the dtype that holds on this thread, recorded on the tape; `x` itself without one, and
/// where it is undefined or not of 16 or 32 bits.
Tensor autocast(const Tensor& x);

}  // namespace heddle
