#pragma once

#include <string>

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

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

/// dw (out, in) = dy^T x, db (out) = sum of dy over rows. On the CPU, dw and db of 16-bit operands
/// may be float32: the sums as they are, not rounded.
struct LinearBackwardWeightArgs {
  DType dtype;
  int64_t rows, in, out;
  void* dw;
  void* db;  // may be null
  const void* x;
  const void* dy;
  DType dw_dtype = dtype;  // of dw and db: dtype or, on the CPU, float32

  std::string key() const;
};

namespace cpu {
void linear_forward(const LinearForwardArgs& args);
void linear_backward_data(const LinearBackwardDataArgs& args);
void linear_backward_weight(const LinearBackwardWeightArgs& args);
}  // namespace cpu

namespace cuda {
void linear_forward(const LinearForwardArgs& args, StreamRef stream);
void linear_backward_data(const LinearBackwardDataArgs& args, StreamRef stream);
void linear_backward_weight(const LinearBackwardWeightArgs& args, StreamRef stream);
}  // namespace cuda

namespace onednn {
void linear_forward(const LinearForwardArgs& args);
void linear_backward_data(const LinearBackwardDataArgs& args);
void linear_backward_weight(const LinearBackwardWeightArgs& args);
bool linear_forward_supports(const LinearForwardArgs& args);
bool linear_backward_data_supports(const LinearBackwardDataArgs& args);
bool linear_backward_weight_supports(const LinearBackwardWeightArgs& args);
}  // namespace onednn

namespace cublas {
void linear_forward(const LinearForwardArgs& args, StreamRef stream);
void linear_backward_data(const LinearBackwardDataArgs& args, StreamRef stream);
void linear_backward_weight(const LinearBackwardWeightArgs& args, StreamRef stream);
bool linear_forward_supports(const LinearForwardArgs& args);
bool linear_backward_data_supports(const LinearBackwardDataArgs& args);
bool linear_backward_weight_supports(const LinearBackwardWeightArgs& args);
}  // namespace cublas

}  // namespace heddle
