#pragma once

// The second half of a product whose depth is cut into parts: their sums (batch, parts, m, n) are
// added in ascending order, so that the bits follow from the sizes alone, and finished.

#include "heddle/kernels/device/gemm_output.cuh"
#include "heddle/kernels/device/launch.cuh"

namespace heddle {

inline constexpr int kPartsThreads = 128;  // small outputs should still meet many multiprocessors

template <class T>
__global__ void __launch_bounds__(kPartsThreads)
    gemm_sum_parts_kernel(const __grid_constant__ GemmOutput<T> out, int64_t n_parts,
                          int64_t batch) {
  const int64_t runs = out.partial_pitch / 4;
  const int64_t index = int64_t{blockIdx.x} * kPartsThreads + threadIdx.x;
  if (index >= batch * out.m * runs) return;
  const int64_t col = index % runs * 4;
  const int64_t row = index / runs % out.m;
  const int64_t matrix = index / runs / out.m;
  const float* part = out.partial + (matrix * n_parts * out.m + row) * out.partial_pitch + col;
  Vector<float, 4> sum = load_constant<4>(part);
  for (int64_t i = 1; i < n_parts; ++i) {
    part += out.m * out.partial_pitch;
    const Vector<float, 4> next = load_constant<4>(part);
    HEDDLE_UNROLL
    for (int j = 0; j < 4; ++j) sum[j] += next[j];
  }
  Vector<T, 4> run{};
  HEDDLE_UNROLL
  for (int j = 0; j < 4; ++j) {
    if (out.bias != nullptr && col + j < out.n)
      sum[j] += to_float(out.bias[matrix * out.bias_stride + col + j]);
    run[j] = from_float<T>(at_least(sum[j], out.least()));
  }
  T* line = out.data + matrix * out.batch_stride + out.row_offset(row);
  if (out.kept == 0) {
    store_run(line + col, out.n - col, out.wide, run);
    return;
  }
  HEDDLE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int64_t within = (col + j) % out.columns;
    if (col + j < out.n && within < out.kept)
      line[(col + j) / out.columns * out.kept + within] = run[j];
  }
}

template <class T>
void sum_parts(const GemmOutput<T>& out, int64_t n_parts, int64_t batch, StreamRef stream) {
  launch("gemm_sum_parts_kernel", gemm_sum_parts_kernel<T>,
         {.grid = {grid_for(batch * out.m * (out.partial_pitch / 4), kPartsThreads)},
          .block = {kPartsThreads}},
         stream, out, n_parts, batch);
}

}  // namespace heddle
