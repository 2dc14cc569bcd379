#pragma once

#include <algorithm>
#include <array>

#include "heddle/core/shape.h"
#include "heddle/kernels/host/parallel_for.h"

/// Before a loop whose turns do not read what others write: the compiler vectorises it without
/// asking whether the pointers overlap (an operand may be the output itself).
#if defined(__GNUC__) && !defined(__clang__)
#define HEDDLE_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#else
#define HEDDLE_INDEPENDENT_LOOP
#endif

namespace heddle::cpu {

/// Elements a piece of a memory-bound loop: well inside a second-level cache.
inline constexpr int64_t kElementwiseGrain = 1 << 15;

/// The loops of a kernel that walks N operands of one shape together, each with its own strides (0
/// along broadcast dimensions). Neighbouring loops are merged where all operands allow it, so that
/// dense tensors become one long row.
template <int N>
struct LoopNest {
  using Offsets = std::array<int64_t, N>;

  Shape sizes;                     // outermost first; at least two: (..., rows, cols)
  std::array<Strides, N> strides;  // of each operand, in the order of `sizes`

  int64_t cols() const { return sizes.back(); }
  int64_t rows() const { return sizes[sizes.size() - 2]; }
  int64_t n_rows() const {  // of all outer loops together
    int64_t count = 1;
    for (int i = 0; i + 1 < sizes.size(); ++i) count *= sizes[i];
    return count;
  }
  int64_t row_stride(int operand) const { return stride(operand, sizes.size() - 2); }
  int64_t col_stride(int operand) const { return stride(operand, sizes.size() - 1); }
  int64_t stride(int operand, int dim) const { return strides[static_cast<size_t>(operand)][dim]; }

  /// Where row `row` (counted over all outer loops) begins, in elements of each operand.
  Offsets offset_of_row(int64_t row) const {
    Offsets offsets{};
    for (int dim = sizes.size() - 2; dim >= 0; --dim) {
      const int64_t index = row % sizes[dim];
      row /= sizes[dim];
      for (size_t i = 0; i < N; ++i) offsets[i] += index * strides[i][dim];
    }
    return offsets;
  }
};

/// Makes `dim` of `from` the next inner dimension of `to`, merged with the one before if possible.
template <int N>
void append_dim(LoopNest<N>& to, int64_t size, const std::array<int64_t, N>& strides) {
  const int last = to.sizes.size() - 1;
  bool mergeable = last >= 0;
  for (size_t i = 0; i < N && mergeable; ++i) mergeable = to.strides[i][last] == strides[i] * size;
  if (mergeable) to.sizes[last] *= size;
  if (!mergeable) to.sizes.push_back(size);
  for (size_t i = 0; i < N; ++i) {
    if (mergeable) to.strides[i][last] = strides[i];
    if (!mergeable) to.strides[i].push_back(strides[i]);
  }
}

/// Missing loops are outer ones of one turn.
template <int N>
LoopNest<N> padded_to_two_loops(const LoopNest<N>& nest) {
  if (nest.sizes.size() >= 2) return nest;
  LoopNest<N> padded;
  padded.sizes = Shape::filled(2 - nest.sizes.size(), 1);
  for (Strides& strides : padded.strides) strides = Strides::filled(padded.sizes.size(), 0);
  for (int i = 0; i < nest.sizes.size(); ++i) {
    padded.sizes.push_back(nest.sizes[i]);
    for (size_t k = 0; k < N; ++k) padded.strides[k].push_back(nest.strides[k][i]);
  }
  return padded;
}

/// The loops in the order of `dims`, neighbours merged.
template <int N>
LoopNest<N> nest_of_dims(const Shape& shape, const std::array<Strides, N>& strides,
                         const Dims& dims) {
  LoopNest<N> nest;
  for (const int64_t d : dims) {
    const int dim = static_cast<int>(d);
    std::array<int64_t, N> of_dim;
    for (size_t k = 0; k < N; ++k) of_dim[k] = strides[k][dim];
    append_dim<N>(nest, shape[dim], of_dim);
  }
  return padded_to_two_loops(nest);
}

/// Loops in logical order.
template <int N>
LoopNest<N> make_ordered_nest(const Shape& shape, const std::array<Strides, N>& strides) {
  Dims dims;
  for (int dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] != 1) dims.push_back(dim);
  return nest_of_dims<N>(shape, strides, dims);
}

/// Loops in the order of operand 0's strides, the smallest innermost.
template <int N>
LoopNest<N> make_loop_nest(const Shape& shape, const std::array<Strides, N>& strides) {
  Dims dims;
  for (int dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    dims.push_back(dim);
    for (int i = dims.size() - 1; i > 0; --i) {  // insertion: at most six, and stable
      const int outer = static_cast<int>(dims[i - 1]);
      if (strides[0][outer] >= strides[0][dim]) break;
      std::swap(dims[i - 1], dims[i]);
    }
  }
  return nest_of_dims<N>(shape, strides, dims);
}

/// Cuts the nest into tiles of at most about kElementwiseGrain elements and calls
/// body(offsets, rows, cols) for each, in parallel. A tile lies in the two innermost loops.
template <int N, class Body>
void for_each_tile(const LoopNest<N>& nest, const Body& body) {
  const int64_t cols = nest.cols();
  const int64_t n_rows = nest.n_rows();
  if (cols == 0 || n_rows == 0) return;
  if (cols >= kElementwiseGrain) {
    const int64_t per_row = (cols + kElementwiseGrain - 1) / kElementwiseGrain;
    parallel_for(n_rows * per_row, [&](int64_t piece) {
      auto offsets = nest.offset_of_row(piece / per_row);
      const int64_t begin = piece % per_row * kElementwiseGrain;
      for (int i = 0; i < N; ++i) offsets[static_cast<size_t>(i)] += begin * nest.col_stride(i);
      body(offsets, int64_t{1}, std::min(kElementwiseGrain, cols - begin));
    });
    return;
  }
  parallel_ranges(n_rows, std::max<int64_t>(1, kElementwiseGrain / cols),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end;) {
                      const int64_t left = nest.rows() - row % nest.rows();
                      const int64_t run = std::min(left, end - row);
                      body(nest.offset_of_row(row), run, cols);
                      row += run;
                    }
                  });
}

}  // namespace heddle::cpu
