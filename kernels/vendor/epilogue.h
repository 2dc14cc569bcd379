#pragma once

// Bias and ReLU around a library's plain products; for the vendor sources alone.
#include <cstdint>

#include "heddle/kernels/copy.h"
#include "heddle/kernels/unary.h"

namespace heddle {

/// y (rows, cols) = the bias (cols) in each row. The product that is then added rounds once.
inline void lay_bias(void* y, const void* bias, int64_t rows, int64_t cols, DType dtype,
                     StreamRef stream) {
  const View from{const_cast<void*>(bias), dtype, {rows, cols}, {0, 1}};
  cuda::copy({View{y, dtype, {rows, cols}, {cols, 1}}, from}, stream);
}

/// y = max(0, y), in place.
inline void apply_relu(void* y, int64_t n, DType dtype, StreamRef stream) {
  cuda::unary_forward({y, y, n, dtype, UnaryOp::kRelu}, stream);
}

}  // namespace heddle
