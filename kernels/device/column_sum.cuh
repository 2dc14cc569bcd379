#pragma once

// sums (cols) = the sum over rows of x (rows, cols), dense: the gradient of a bias. Rows are cut
// into parts by their number alone; a block adds those of a part, thread by thread and then the
// threads in order; the parts are added in order. Sums in float32. Deterministic.

#include <algorithm>

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/device/shared.cuh"
#include "heddle/kernels/device/vector_space.cuh"

namespace heddle {

inline constexpr int kColumnThreads = 256;
inline constexpr int kColumnVectors = 32;  // of a block, side by side: 512 bytes of a row
inline constexpr int kColumnRows = kColumnThreads / kColumnVectors;

struct ColumnSizes {
  int64_t rows, cols, parts, rows_of_part;
};

/// y (parts, cols) = the sums of each part.
template <int kWidth, class T>
__global__ void __launch_bounds__(kColumnThreads)
    column_sum_part_kernel(float* y, const T* x, const __grid_constant__ ColumnSizes sizes) {
  HEDDLE_SHARED(float, sums, [kColumnRows][kColumnVectors * kWidth]);
  const int vector = static_cast<int>(threadIdx.x) % kColumnVectors;
  const int line = static_cast<int>(threadIdx.x) / kColumnVectors;
  const int64_t blocks = (sizes.cols + kColumnVectors * kWidth - 1) / (kColumnVectors * kWidth);
  const int64_t part = int64_t{blockIdx.x} / blocks;
  const int64_t first = int64_t{blockIdx.x} % blocks * kColumnVectors * kWidth;
  const int64_t col = first + vector * kWidth;
  const int64_t begin = part * sizes.rows_of_part;
  const int64_t end =
      begin + sizes.rows_of_part < sizes.rows ? begin + sizes.rows_of_part : sizes.rows;
  float sum[kWidth] = {};
  if (col < sizes.cols) {
    for (int64_t row = begin + line; row < end; row += kColumnRows) {
      const Vector<T, kWidth> next = load<kWidth>(x + row * sizes.cols + col);
      HEDDLE_UNROLL
      for (int i = 0; i < kWidth; ++i) sum[i] += to_float(next[i]);
    }
  }
  HEDDLE_UNROLL
  for (int i = 0; i < kWidth; ++i) sums[line][i * kColumnVectors + vector] = sum[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kColumnVectors * kWidth; i += kColumnThreads) {
    if (first + i >= sizes.cols) continue;
    float total = 0;
    HEDDLE_UNROLL
    for (int l = 0; l < kColumnRows; ++l)
      total += sums[l][i % kWidth * kColumnVectors + i / kWidth];
    y[part * sizes.cols + first + i] = total;
  }
}

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    column_sum_finish_kernel(T* sums, const float* parts, int64_t n_parts, int64_t cols) {
  const int64_t col = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (col >= cols) return;
  float sum = 0;
  for (int64_t part = 0; part < n_parts; ++part) sum += parts[part * cols + col];
  sums[col] = from_float<T>(sum);
}

template <class T>
void column_sum(T* sums, const T* x, int64_t rows, int64_t cols, StreamRef stream) {
  if (cols == 0) return;
  constexpr int64_t kLeastRows = 256;  // a part; at most 512 parts
  ColumnSizes sizes{rows, cols, 1, std::max<int64_t>(kLeastRows, (rows + 511) / 512)};
  sizes.parts = std::max<int64_t>(1, (rows + sizes.rows_of_part - 1) / sizes.rows_of_part);
  const DeviceScratch scratch(sizes.parts * cols * static_cast<int64_t>(sizeof(float)), stream);
  auto* parts = scratch.as<float>();
  const auto run = [&](auto kernel, int64_t width) {
    const int64_t blocks = grid_for(cols, kColumnVectors * width);
    launch("column_sum_part_kernel", kernel,
           {.grid = {grid_for(blocks * sizes.parts, 1)}, .block = {kColumnThreads}}, stream, parts,
           x, sizes);
  };
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  if (is_aligned<kVector>(x) && cols % kVector == 0) {
    run(column_sum_part_kernel<kVector, T>, kVector);
  } else {
    run(column_sum_part_kernel<1, T>, 1);
  }
  launch("column_sum_finish_kernel", column_sum_finish_kernel<T>,
         {.grid = {grid_for(cols, kColumnThreads)}, .block = {kColumnThreads}}, stream, sums, parts,
         sizes.parts, cols);
}

}  // namespace heddle
