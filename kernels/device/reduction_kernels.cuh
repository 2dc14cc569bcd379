#pragma once

#include "heddle/kernels/device/nest.cuh"
#include "heddle/kernels/device/reduce.cuh"

/// The kernels of reduction.cuh, one for each mapping of threads to terms.
namespace heddle {

/// Where terms and results lie. Terms are counted in vectors.
struct ReduceLoop {
  int64_t n_outputs;
  int64_t n_terms;  // of one output, in vectors along rows
  int64_t part;     // terms of a part
  Divisor n_parts;
  Loops<1> x_of_term;    // offset in x
  Loops<1> x_of_output;  // rows: of each output; columns: of each row of outputs
  Loops<1> y_of_output;
  // Columns alone:
  int64_t col_vectors;  // in a row of outputs
  int64_t col_stride;
  Divisor col_blocks;
  int threads_across;  // a power of two
};

namespace {

constexpr int kReduceThreads = 256;
constexpr int kReduceUnroll = 4;        // loads of a thread under way
constexpr int kRowPartVectors = 16;     // of a thread: 64 KiB a block
constexpr int kColumnPartVectors = 64;  // of a thread: partial results are under 2% of x
constexpr int kGroupVectors = 8;        // of a lane, at most

/// Vectors that columns and rows are read in: results of N columns are held in shared memory, and
/// written by a thread each.
template <class Op, class T>
constexpr int kReduceWidth = std::min({kVectorBytes / static_cast<int>(sizeof(T)),
                                       64 / static_cast<int>(sizeof(typename Op::Total)),
                                       kReduceThreads / kWarpSize});

/// Takes the terms begin, begin + step, ... below end: vectors along a row, or of columns.
template <int N, bool kAlongRow, class Op, class T>
__device__ __forceinline__ void take_terms(const ReduceLoop& loop, const Op& op, const T* x,
                                           int64_t begin, int64_t end, int64_t step,
                                           typename Op::Value (&values)[N]) {
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) values[k] = op.identity();
  for (int64_t first = begin; first < end; first += kReduceUnroll * step) {
    Vector<T, N> terms[kReduceUnroll];
    HEDDLE_UNROLL
    for (int u = 0; u < kReduceUnroll; ++u) {
      const int64_t term = first + u * step;
      int64_t offset[1] = {0};
      if (term < end) {
        loop.x_of_term.add_offsets(term, offset);
        terms[u] = load<N>(x + offset[0]);
      }
    }
    HEDDLE_UNROLL
    for (int u = 0; u < kReduceUnroll; ++u) {
      const int64_t term = first + u * step;
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k)
        if (term < end)
          values[k] = op.take(values[k], terms[u][k], kAlongRow ? term * N + k : term);
    }
  }
}

template <int N, class Op>
__device__ __forceinline__ typename Op::Total total_of(const Op& op,
                                                       const typename Op::Value (&values)[N]) {
  auto total = op.total(values[0]);
  HEDDLE_UNROLL
  for (int k = 1; k < N; ++k) total = op.combine(total, op.total(values[k]));
  return total;
}

template <class Op>
__device__ __forceinline__ void write_result(const ReduceLoop& loop, const Op& op, int64_t output,
                                             const typename Op::Total& total,
                                             typename Op::Result* y) {
  int64_t offset[1] = {0};
  loop.y_of_output.add_offsets(output, offset);
  y[offset[0]] = op.result(total);
}

template <int N, class Op, class T>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_group_per_row_kernel(const ReduceLoop loop, const Op op, const T* x,
                                typename Op::Result* y) {
  const int width = loop.threads_across;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t output = int64_t{blockIdx.x} * (kReduceThreads / width) + thread / width;
  const bool active = output < loop.n_outputs;
  int64_t offset[1] = {0};
  if (active) loop.x_of_output.add_offsets(output, offset);
  typename Op::Value values[N];
  take_terms<N, true>(loop, op, x + offset[0], thread % width, active ? loop.n_terms : 0, width,
                      values);
  const auto total = warp_reduce(
      total_of(op, values), [&](const auto& a, const auto& b) { return op.combine(a, b); }, width);
  if (active && thread % width == 0) write_result(loop, op, output, total, y);
}

/// `parts`: (parts, outputs); null where there is one part.
template <int N, class Op, class T>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_block_per_row_kernel(const ReduceLoop loop, const Op op, const T* x,
                                typename Op::Result* y, typename Op::Total* parts) {
  int64_t output = blockIdx.x;
  const int64_t part = loop.n_parts.split(output);
  int64_t offset[1] = {0};
  loop.x_of_output.add_offsets(output, offset);
  const int64_t begin = part * loop.part;
  const int64_t end = begin + loop.part < loop.n_terms ? begin + loop.part : loop.n_terms;
  typename Op::Value values[N];
  take_terms<N, true>(loop, op, x + offset[0], begin + threadIdx.x, end, kReduceThreads, values);
  const auto total = block_reduce<kReduceThreads>(
      total_of(op, values), [&](const auto& a, const auto& b) { return op.combine(a, b); });
  if (threadIdx.x != 0) return;
  if (parts == nullptr) return write_result(loop, op, output, total, y);
  parts[part * loop.n_outputs + output] = total;
}

/// `threads_across` threads lie side by side over vectors of N columns, the others of a block over
/// rows. `parts` as above.
template <int N, class Op, class T>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns_kernel(const ReduceLoop loop, const Op op, const T* x, typename Op::Result* y,
                          typename Op::Total* parts) {
  HEDDLE_SHARED(typename Op::Total, totals, [N][kReduceThreads]);
  int64_t row = blockIdx.x;  // of outputs
  const int64_t part = loop.n_parts.split(row);
  const int thread = static_cast<int>(threadIdx.x);
  const int width = loop.threads_across;
  const int height = kReduceThreads / width;
  const int64_t first_col = loop.col_blocks.split(row) * width;
  const int64_t col = first_col + thread % width;
  const bool active = col < loop.col_vectors;
  int64_t offset[1] = {active ? col * N * loop.col_stride : 0};
  loop.x_of_output.add_offsets(row, offset);
  const int64_t begin = part * loop.part;
  const int64_t end = begin + loop.part < loop.n_terms ? begin + loop.part : loop.n_terms;
  typename Op::Value values[N];
  take_terms<N, false>(loop, op, x + offset[0], begin + thread / width, active ? end : 0, height,
                       values);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) totals[k][thread] = op.total(values[k]);
  __syncthreads();
  for (int half = height / 2; half > 0; half /= 2) {
    if (thread < half * width) {
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k)
        totals[k][thread] = op.combine(totals[k][thread], totals[k][thread + half * width]);
    }
    __syncthreads();
  }
  static_assert(kWarpSize * N <= kReduceThreads);
  if (thread >= width * N || first_col + thread / N >= loop.col_vectors) return;
  const auto& total = totals[thread % N][thread / N];  // neighbouring threads, neighbouring outputs
  const int64_t output = (row * loop.col_vectors + first_col) * N + thread;
  if (parts == nullptr) return write_result(loop, op, output, total, y);
  parts[part * loop.n_outputs + output] = total;
}

/// An operation on partial results of Op.
template <class Op>
struct OfParts {
  using Value = typename Op::Total;
  using Total = typename Op::Total;
  using Result = typename Op::Result;
  Op op;

  __device__ __forceinline__ Value identity() const { return op.total(op.identity()); }
  __device__ __forceinline__ Value take(const Value& value, const Total& part, int64_t) const {
    return op.combine(value, part);
  }
  __device__ __forceinline__ Total total(const Value& value) const { return value; }
  __device__ __forceinline__ Total combine(const Total& a, const Total& b) const {
    return op.combine(a, b);
  }
  __device__ __forceinline__ Result result(const Total& total) const { return op.result(total); }
};

}  // namespace
}  // namespace heddle
