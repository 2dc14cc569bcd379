#pragma once

// Where the sums of a matrix product go: into y = relu(sum + bias), or, where the depth is cut into
// parts, as they are into scratch (batch, parts, m, pitch), from which gemm_parts.cuh makes y.

#include <cmath>

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/vector_space.cuh"

namespace heddle {

template <class T>
struct GemmOutput {
  T* data;
  int64_t m, n;
  int64_t batch_stride, row_stride;
  const T* bias = nullptr;  // of a column
  int64_t bias_stride = 0;  // from matrix to matrix of the batch
  bool relu = false;
  bool wide = false;          // 16-byte stores: pointer, strides and n allow them
  float* partial = nullptr;   // not null where the depth has parts
  int64_t partial_pitch = 0;  // n, made whole chunks of 16 bytes
  // Rows are pixels (image, p, q) spread over images (a phase of the data gradient) where rows_w >
  // 0.
  int64_t image = 0, pitch = 0, pixel = 0;
  int rows_h = 0, rows_w = 0;
  // Of each `columns` columns (of padded channels) the first `kept` are stored, where kept > 0.
  int columns = 0, kept = 0;

  __device__ __forceinline__ int64_t row_offset(int64_t row) const {
    if (rows_w == 0) return row * row_stride;
    const int64_t pixels = int64_t{rows_h} * rows_w;
    const int64_t rest = row % pixels;
    return row / pixels * image + rest / rows_w * pitch + rest % rows_w * pixel;
  }
  /// The least value that a finished sum may have.
  __device__ __forceinline__ float least() const { return relu ? 0.0F : -INFINITY; }
};

/// NaN stays NaN.
__device__ __forceinline__ float at_least(float value, float least) {
  return value < least ? least : value;
}

/// A block's place: its part of the depth, and matrix, row and column of its first element of c.
struct GemmBlock {
  int64_t part, batch, row, col;
};

/// Stores kWidth neighbours, of which `n` exist: all or none where `wide`.
template <int kWidth, class T>
__device__ __forceinline__ void store_run(T* target, int64_t n, bool wide,
                                          const Vector<T, kWidth>& run) {
  if (wide) {
    if (n > 0) store(target, run);
    return;
  }
  HEDDLE_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    if (i < n) target[i] = run[i];
  }
}

}  // namespace heddle
