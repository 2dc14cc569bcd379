#pragma once

#include <string>

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

/// c (batch, m, n) dense row-major = a (batch, m, k) b (batch, k, n). Strides in elements, any;
/// a batch stride of 0 uses one matrix for all.
struct MatmulArgs {
  DType dtype;
  int64_t batch, m, n, k;
  void* c;
  const void* a;
  int64_t a_batch, a_row, a_col;
  const void* b;
  int64_t b_batch, b_row, b_col;

  std::string key() const;
};

namespace cpu {
void matmul(const MatmulArgs& args);
}  // namespace cpu

namespace cuda {
void matmul(const MatmulArgs& args, StreamRef stream);
}  // namespace cuda

namespace cublas {
void matmul(const MatmulArgs& args, StreamRef stream);
bool matmul_supports(const MatmulArgs& args);
}  // namespace cublas

}  // namespace heddle
