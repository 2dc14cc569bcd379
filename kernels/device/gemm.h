#pragma once

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"
#include "heddle/kernels/device/gemm_plan.h"

namespace heddle::cuda {

/// An operand (batch, rows, depth) with any strides, in elements.
struct GemmMatrix {
  const void* data;
  int64_t batch_stride, row_stride, depth_stride;
};

/// c (batch, m, n), dense, = a (batch, m, k) b (batch, n, k)^T + bias, then max(0, c) where `relu`.
struct GemmArgs {
  const char* op;  // named in errors
  DType dtype;     // float32, float16, bfloat16
  GemmSizes sizes;
  void* c;
  GemmMatrix a, b;
  const void* bias = nullptr;  // (n)
  bool relu = false;
};

/// The matrix product of kernels/matmul.cu, which linear layers share.
void gemm(const GemmArgs& args, StreamRef stream);

/// Its 16-bit half, kernels/matmul_16bit.cu: float16 and bfloat16, on the tensor cores.
void gemm_16bit(const GemmArgs& args, StreamRef stream);

}  // namespace heddle::cuda
