#pragma once

// The rows of a (rows, cols) array in the hands of the threads that share one. Two mappings with
// one interface:
//   WarpRow   up to kWarpRowCols elements in a warp's registers: read from memory once
//   BlockRow  any number of elements, read again by each pass (from the second-level cache)
// A thread's elements are visited in ascending order and sums have a fixed tree, so the bits follow
// from the sizes alone.

#include <cmath>

#include "heddle/kernels/device/floats.cuh"
#include "heddle/kernels/device/reduce.cuh"

namespace heddle {

inline constexpr int kRowThreads = 256;    // of a block: 8 warps, full occupancy at 32 registers
inline constexpr int kWarpRowCols = 1024;  // 32 elements a lane

template <class T, int N, int kPerLane>
class WarpRow {
 public:
  static constexpr int kWidth = N;
  static constexpr int kRowsPerBlock = kRowThreads / 32;

  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ static int slot() { return static_cast<int>(threadIdx.x) / 32; }

  __device__ __forceinline__ WarpRow(const T* x, int64_t cols) {
    visit(cols, [&](int i, int64_t col) { held_[i] = load_floats<N>(x + col); });
  }
  /// Calls f(i, column) for each of this thread's vectors.
  template <class F>
  __device__ __forceinline__ static void visit(int64_t cols, const F& f) {
    HEDDLE_UNROLL
    for (int i = 0; i < kPerLane / N; ++i) {
      const int64_t col = (i * 32 + thread()) * N;
      if (col < cols) f(i, col);
    }
  }
  __device__ __forceinline__ Floats<N> vector(int i, int64_t) const { return held_[i]; }

  __device__ __forceinline__ static float sum(float value) { return warp_sum(value); }
  __device__ __forceinline__ static float max(float value) { return warp_max(value); }

 private:
  Floats<N> held_[kPerLane / N];
};

template <class T, int N>
class BlockRow {
 public:
  static constexpr int kWidth = N;
  static constexpr int kRowsPerBlock = 1;

  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ static int slot() { return 0; }

  __device__ __forceinline__ BlockRow(const T* x, int64_t) : x_(x) {}

  template <class F>
  __device__ __forceinline__ static void visit(int64_t cols, const F& f) {
    for (int64_t col = thread() * N; col < cols; col += kRowThreads * N) f(0, col);
  }
  __device__ __forceinline__ Floats<N> vector(int, int64_t col) const {
    return load_floats<N>(x_ + col);
  }
  __device__ __forceinline__ static float sum(float value) { return block_sum<kRowThreads>(value); }
  __device__ __forceinline__ static float max(float value) { return block_max<kRowThreads>(value); }

 private:
  const T* x_;
};

/// The row that this thread works on.
template <class Row>
__device__ __forceinline__ int64_t row_index() {
  return int64_t{blockIdx.x} * Row::kRowsPerBlock + Row::slot();
}

/// The largest element that is not NaN; -infinity where there is none.
template <class Row>
__device__ __forceinline__ float row_max(const Row& row, int64_t cols) {
  float largest = -INFINITY;
  Row::visit(cols, [&](int i, int64_t col) {
    const auto x = row.vector(i, col);
    HEDDLE_UNROLL
    for (int k = 0; k < Row::kWidth; ++k) largest = x[k] > largest ? x[k] : largest;
  });
  return Row::max(largest);
}

/// Sum of term(column, value).
template <class Row, class Term>
__device__ __forceinline__ float row_sum(const Row& row, int64_t cols, const Term& term) {
  float sum = 0.0F;
  Row::visit(cols, [&](int i, int64_t col) {
    const auto x = row.vector(i, col);
    HEDDLE_UNROLL
    for (int k = 0; k < Row::kWidth; ++k) sum += term(col + k, x[k]);
  });
  return Row::sum(sum);
}

/// y[column] = f(column, value in each of rows).
template <class T, class F, class Row, class... More>
__device__ __forceinline__ void write_row(T* y, int64_t cols, const F& f, const Row& row,
                                          const More&... more) {
  Row::visit(cols, [&](int i, int64_t col) {
    const auto write = [&](const auto&... x) {
      Floats<Row::kWidth> out;
      HEDDLE_UNROLL
      for (int k = 0; k < Row::kWidth; ++k) out[k] = f(col + k, x[k]...);
      store_floats(y + col, out);
    };
    write(row.vector(i, col), more.vector(i, col)...);
  });
}

/// Calls body.template operator()<Row>() with the mapping for rows of `cols` elements: 16 bytes at
/// a time where every row of each array begins at a multiple of them.
template <class T, class Body, class... Pointers>
void dispatch_row(int64_t cols, const Body& body, const Pointers*... pointers) {
  const auto run = [&]<int N>() {
    if (cols <= kWarpRowCols / 4) return body.template operator()<WarpRow<T, N, 8>>();
    if constexpr (N > 1)  // single loads would need an address each
      if (cols <= kWarpRowCols) return body.template operator()<WarpRow<T, N, 32>>();
    return body.template operator()<BlockRow<T, N>>();
  };
  dispatch_width<T>(cols, run, pointers...);
}

}  // namespace heddle
