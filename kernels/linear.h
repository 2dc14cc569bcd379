#pragma once

#include <string>

#include "heddle/core/view.h"
#include "heddle/kernels/no_cuda_kernel.h"

namespace heddle {

/// y (rows, out) = x (rows, in) w^T + bias, w (out, in), all dense row-major; max(0, y) where
/// `relu`.
struct LinearForwardArgs {
  DType dtype;
  int64_t rows, in, out;
  void* y;
  const void* x;
  const void* w;
  const void* bias;  // (out), may be null
  bool relu = false;

  std::string key() const;
};

/// dx (rows, in) = dy w.
struct LinearBackwardDataArgs {
  DType dtype;
  int64_t rows, in, out;
  void* dx;
  const void* dy;
  const void* w;

  std::string key() const;
};

/// dw (out, in) = dy^T x, db (out) = sum of dy over rows.
struct LinearBackwardWeightArgs {
  DType dtype;
  int64_t rows, in, out;
  void* dw;
  void* db;  // may be null
  const void* x;
  const void* dy;

  std::string key() const;
};

namespace cpu {
void linear_forward(const LinearForwardArgs& args);
void linear_backward_data(const LinearBackwardDataArgs& args);
void linear_backward_weight(const LinearBackwardWeightArgs& args);
}  // namespace cpu

HEDDLE_NO_CUDA_KERNEL(linear_forward, LinearForwardArgs)
HEDDLE_NO_CUDA_KERNEL(linear_backward_data, LinearBackwardDataArgs)
HEDDLE_NO_CUDA_KERNEL(linear_backward_weight, LinearBackwardWeightArgs)

namespace onednn {
void linear_forward(const LinearForwardArgs& args);
void linear_backward_data(const LinearBackwardDataArgs& args);
void linear_backward_weight(const LinearBackwardWeightArgs& args);
bool linear_forward_supports(const LinearForwardArgs& args);
bool linear_backward_data_supports(const LinearBackwardDataArgs& args);
bool linear_backward_weight_supports(const LinearBackwardWeightArgs& args);
}  // namespace onednn

}  // namespace heddle
