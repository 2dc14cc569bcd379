#pragma once

#include <optional>

#include "heddle/core/tensor.h"

namespace heddle {

/// While it lives, the operations of this thread compute in the dtypes of PyTorch's lists
/// (docs/amp.md): conv2d, linear and matmul convert what they are given, parameters included, to
/// `dtype`; exp, log, log_softmax, cross_entropy and sum convert 16-bit inputs to float32; all
/// others take the dtype they get, the wider one where two differ, and keep statistics and sums in
/// float32 inside. Parameters stay float32, as do their gradients and the optimizer's state.
/// backward() follows the dtypes of the forward pass and needs no scope. Evaluation and training
/// alike. Numerics: bfloat16 has float32's range and needs no loss scaling; float16 has not
/// (nn/amp/grad_scaler.h). Errors: a dtype other than bfloat16, float16 and float32 (which switches
/// an outer one off).
class Autocast {
 public:
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> previous_;
};

/// The dtype of this thread's Autocast, where one lives: to hand it to a thread that helps.
std::optional<DType> autocast_dtype();

/// `x` in the dtype of convolutions and products on this thread, recorded on the tape; `x` itself
/// without one, and where it is undefined or not of 16 or 32 bits.
Tensor autocast(const Tensor& x);
/// The same without history, for an operation that gives the gradient in x's own dtype: what a leaf
/// that requires grad was converted to on the CPU is kept until the leaf is written, and optimizers
/// write both (core/kept_cast.h).
Tensor autocast_operand(const Tensor& x);
/// `x` in float32 where it has 16 bits and an Autocast lives on this thread; else `x` itself.
Tensor autocast_to_float32(const Tensor& x);

}  // namespace heddle
