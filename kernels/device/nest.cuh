#pragma once

#include <array>

#include "heddle/kernels/device/elementwise.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/host/loop_nest.h"

/// Loops over operands of one shape with strides of their own (cpu::LoopNest), as kernels see them:
/// one thread a vector of the innermost loop, whose place is found by Divisor.
namespace heddle {

/// Loops of kOperands operands from the inside out: where turn `index`, counted over all of them,
/// is.
template <int kOperands>
struct Loops {
  int n_loops = 0;
  Divisor sizes[kMaxDims];
  int64_t strides[kMaxDims][kOperands] = {};

  void append(int64_t size, const std::array<int64_t, kOperands>& of_operands) {
    if (size == 1) return;
    sizes[n_loops] = Divisor(std::max<int64_t>(size, 1));
    for (size_t i = 0; i < kOperands; ++i) strides[n_loops][i] = of_operands[i];
    ++n_loops;
  }

  void append(int64_t size, int64_t stride) {
    static_assert(kOperands == 1);
    append(size, std::array<int64_t, kOperands>{stride});
  }

  __device__ __forceinline__ void add_offsets(int64_t index, int64_t (&offsets)[kOperands]) const {
    for (int loop = 0; loop < n_loops; ++loop) {
      const int64_t turn = loop + 1 < n_loops ? sizes[loop].split(index) : index;
      HEDDLE_UNROLL
      for (int i = 0; i < kOperands; ++i) offsets[i] += turn * strides[loop][i];
    }
  }
};

/// The loops of a nest but the innermost `n_inner` and `left_out`.
template <int kOperands>
Loops<kOperands> loops_of(const cpu::LoopNest<kOperands>& nest, int n_inner = 0,
                          int left_out = -1) {
  Loops<kOperands> loops;
  for (int loop = nest.sizes.size() - 1 - n_inner; loop >= 0; --loop) {
    if (loop == left_out) continue;
    std::array<int64_t, kOperands> strides;
    for (size_t i = 0; i < kOperands; ++i) strides[i] = nest.strides[i][loop];
    loops.append(nest.sizes[loop], strides);
  }
  return loops;
}

/// True where all strides of `operand` but the innermost are multiples of `width`.
template <int kOperands>
bool outer_strides_are_multiples(int width, const cpu::LoopNest<kOperands>& nest, int operand) {
  for (int loop = 0; loop + 1 < nest.sizes.size(); ++loop)
    if (nest.sizes[loop] > 1 && nest.stride(operand, loop) % width != 0) return false;
  return true;
}

template <int kOperands>
struct NestLoop {
  int64_t n_vectors;  // of all rows
  Divisor per_row;
  int64_t col_strides[kOperands];
  Loops<kOperands> outer;
};

/// True where rows can be cut into vectors of `width` elements: each operand runs with stride 1 and
/// aligned in every row, or stands still.
template <int kOperands>
bool rows_are_vectors(int width, const cpu::LoopNest<kOperands>& nest,
                      const DenseOperand (&operands)[kOperands]) {
  if (nest.cols() % width != 0 || nest.col_stride(0) != 1) return false;
  for (int i = 0; i < kOperands; ++i) {
    if (nest.col_stride(i) == 0) continue;
    if (nest.col_stride(i) != 1 || unaligned_head(width, {&operands[i], 1}) != 0) return false;
    if (!outer_strides_are_multiples(width, nest, i)) return false;
  }
  return true;
}

namespace {

constexpr int kNestUnroll = 2;  // vectors of a thread

template <int N, int kOperands, class Body>
__global__ void __launch_bounds__(kElementwiseThreads)
    nest_kernel(const NestLoop<kOperands> loop, const Body body) {
  const int64_t first = int64_t{blockIdx.x} * (kElementwiseThreads * kNestUnroll) + threadIdx.x;
  int64_t offsets[kNestUnroll][kOperands];
  decltype(body.template read_at<N>(offsets[0])) inputs[kNestUnroll];
  HEDDLE_UNROLL
  for (int k = 0; k < kNestUnroll; ++k) {
    int64_t row = first + k * kElementwiseThreads;
    if (row >= loop.n_vectors) break;
    const int64_t col = loop.per_row.split(row) * N;
    HEDDLE_UNROLL
    for (int i = 0; i < kOperands; ++i) offsets[k][i] = col * loop.col_strides[i];
    loop.outer.add_offsets(row, offsets[k]);
    inputs[k] = body.template read_at<N>(offsets[k]);
  }
  HEDDLE_UNROLL
  for (int k = 0; k < kNestUnroll; ++k)
    if (first + k * kElementwiseThreads < loop.n_vectors)
      body.template write_at<N>(offsets[k], inputs[k]);
}

template <int N, int kOperands, class Body>
void launch_nest_width(const char* name, const cpu::LoopNest<kOperands>& nest, const Body& body,
                       StreamRef stream) {
  const int64_t per_row = nest.cols() / N;
  NestLoop<kOperands> loop{nest.n_rows() * per_row, Divisor(per_row), {}, loops_of(nest, 1)};
  for (int i = 0; i < kOperands; ++i) loop.col_strides[i] = nest.col_stride(i);
  const unsigned blocks = grid_for(loop.n_vectors, kElementwiseThreads * kNestUnroll);
  launch(name, nest_kernel<N, kOperands, Body>, {.grid = blocks, .block = kElementwiseThreads},
         stream, loop, body);
}

/// Runs `body` over the nest. A body has read_at<N>(offsets) and write_at<N>(offsets, in) for
/// neighbours in the innermost loop, and read<N>(i) and write<N>(i, in) as launch_elementwise asks
/// for, for a nest that is one row of strides 1 and 0.
template <int N, int kOperands, class Body>
void launch_nest(const char* name, const cpu::LoopNest<kOperands>& nest,
                 const DenseOperand (&operands)[kOperands], const Body& body, StreamRef stream) {
  if (nest.cols() == 0 || nest.n_rows() == 0) return;
  bool dense = nest.n_rows() == 1 && (nest.col_stride(0) == 1 || nest.cols() == 1);
  DenseOperand moving[kOperands] = {};
  for (int i = 0; i < kOperands; ++i) {
    dense = dense && (nest.col_stride(i) == 1 || nest.col_stride(i) == 0);
    if (nest.col_stride(i) == 1) moving[i] = operands[i];
  }
  if (dense && unaligned_head(N, moving) >= 0)
    return launch_elementwise<N>(name, nest.cols(), moving, body, stream);
  if (N > 1 && rows_are_vectors(N, nest, operands))
    return launch_nest_width<N>(name, nest, body, stream);
  launch_nest_width<1>(name, nest, body, stream);
}

}  // namespace
}  // namespace heddle
