#pragma once

#include "heddle/kernels/device/nest.cuh"
#include "heddle/kernels/device/reduce.cuh"
#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/host/reduce_nest.h"

/// Reductions over any dimensions, each element read once. Threads read along the memory, whichever
/// way it runs, by one of three mappings:
///   group_per_row   outputs of few neighbouring terms: 1 to 32 lanes each
///   block_per_row   outputs of many neighbouring terms: a block for each part of them
///   columns         neighbouring outputs, whose terms are apart: a block for some columns and a
///                   part of their rows
/// Long reductions are cut into parts whose number follows from the shape; partial results go to
/// scratch space and are combined in a fixed order: the same bits in each run and on each card.
///
/// An operation has the types Value (of one thread, over at most some dozens of terms), Total (of
/// threads and parts), Result, and
///   Value identity(), Value take(Value, T element, int64_t index)   index counts the terms
///   Total total(Value), Total combine(Total, Total)                 commutative
///   Result result(Total)
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

inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// The smallest power of two that is at least n, at most a warp.
inline int threads_across(int64_t n) {
  int width = 1;
  while (width < n && width < kWarpSize) width *= 2;
  return width;
}

template <class Op>
void launch_combine(const char* name, int64_t n_parts, const Loops<1>& y_of_output,
                    int64_t n_outputs, const Op& op, const typename Op::Total* parts,
                    typename Op::Result* y, StreamRef stream) {
  ReduceLoop loop{.n_outputs = n_outputs,
                  .n_terms = n_parts,
                  .part = n_parts,
                  .y_of_output = y_of_output,
                  .col_vectors = n_outputs,
                  .col_stride = 1,
                  .threads_across = threads_across(n_outputs)};
  loop.x_of_term.append(n_parts, n_outputs);
  const int64_t blocks = ceil_div(n_outputs, loop.threads_across);
  loop.col_blocks = Divisor(blocks);
  typename Op::Total* no_parts = nullptr;
  launch(name, reduce_columns_kernel<1, OfParts<Op>, typename Op::Total>,
         {.grid = grid_for(blocks, 1), .block = kReduceThreads}, stream, loop, OfParts<Op>{op},
         parts, y, no_parts);
}

/// The outermost `n` loops of `operand`, from the inside out.
template <int kOperands>
void append_loops(Loops<1>& loops, const cpu::LoopNest<kOperands>& nest, int operand, int n) {
  for (int i = n - 1; i >= 0; --i) loops.append(nest.sizes[i], nest.stride(operand, i));
}

/// The loops of one reduction, before a mapping is chosen.
template <class Op, class T>
class Reduction {
 public:
  using Total = typename Op::Total;
  using Result = typename Op::Result;

  Reduction(const cpu::ReduceNest& nest, const Op& op, const T* x, Result* y, StreamRef stream)
      : nest_(nest), op_(op), x_(x), y_(y), stream_(stream) {
    loop_.n_outputs = nest.kept.n_rows() * nest.kept.cols();
    append_loops(loop_.y_of_output, nest.kept, 1, nest.kept.sizes.size());
  }

  void run(const char* name) {
    if (loop_.n_outputs == 0) return;
    name_ = name;
    constexpr int kWidth = kReduceWidth<Op, T>;
    const bool along_rows = loop_.n_outputs == 1 ||
                            nest_.reduced.col_stride(0) <= nest_.kept.col_stride(0) ||
                            nest_.reduced.n_rows() * nest_.reduced.cols() <= 1;
    const cpu::LoopNest<1>& reduced = nest_.reduced;
    const int64_t cols = along_rows ? reduced.cols() : nest_.kept.cols();
    const int64_t stride = along_rows ? reduced.col_stride(0) : nest_.kept.col_stride(0);
    const bool wide = kWidth > 1 && stride == 1 && cols % kWidth == 0 && is_aligned<kWidth>(x_) &&
                      outer_strides_are_multiples(kWidth, reduced, 0) &&
                      outer_strides_are_multiples(kWidth, nest_.kept, 0) &&
                      (along_rows ? nest_.kept.cols() == 1 || nest_.kept.col_stride(0) % kWidth == 0
                                  : reduced.cols() == 1 || reduced.col_stride(0) % kWidth == 0);
    if (along_rows) return wide ? run_rows<kWidth>() : run_rows<1>();
    wide ? run_columns<kWidth>() : run_columns<1>();
  }

 private:
  /// Terms in vectors of `width`.
  void set_terms(int64_t width) {
    const cpu::LoopNest<1>& reduced = nest_.reduced;
    loop_.n_terms = reduced.n_rows() * (reduced.cols() / width);
    loop_.x_of_term.append(reduced.cols() / width, reduced.col_stride(0) * width);
    append_loops(loop_.x_of_term, reduced, 0, reduced.sizes.size() - 1);
  }

  template <int N>
  void run_rows() {
    set_terms(N);
    append_loops(loop_.x_of_output, nest_.kept, 0, nest_.kept.sizes.size());
    if (loop_.n_terms <= kGroupVectors * kWarpSize) {
      loop_.threads_across = threads_across(loop_.n_terms);
      const int per_block = kReduceThreads / loop_.threads_across;
      return launch(name_, reduce_group_per_row_kernel<N, Op, T>,
                    {.grid = grid_for(loop_.n_outputs, per_block), .block = kReduceThreads},
                    stream_, loop_, op_, x_, y_);
    }
    run_parts(reduce_block_per_row_kernel<N, Op, T>, loop_.n_outputs,
              kReduceThreads * kRowPartVectors);
  }

  template <int N>
  void run_columns() {
    set_terms(1);
    append_loops(loop_.x_of_output, nest_.kept, 0, nest_.kept.sizes.size() - 1);
    loop_.col_vectors = nest_.kept.cols() / N;
    loop_.col_stride = nest_.kept.col_stride(0);
    loop_.threads_across = threads_across(loop_.col_vectors);
    const int64_t col_blocks = ceil_div(loop_.col_vectors, loop_.threads_across);
    loop_.col_blocks = Divisor(col_blocks);
    run_parts(reduce_columns_kernel<N, Op, T>, col_blocks * nest_.kept.n_rows(),
              kReduceThreads / loop_.threads_across * kColumnPartVectors);
  }

  template <class Kernel>
  void run_parts(Kernel kernel, int64_t blocks, int64_t part) {
    const int64_t n_parts = std::max<int64_t>(1, ceil_div(loop_.n_terms, part));
    loop_.part = part;
    loop_.n_parts = Divisor(n_parts);
    const DeviceScratch scratch(
        n_parts == 1 ? 0 : n_parts * loop_.n_outputs * static_cast<int64_t>(sizeof(Total)),
        stream_);
    Total* parts = scratch.as<Total>();
    launch(name_, kernel, {.grid = grid_for(blocks * n_parts, 1), .block = kReduceThreads}, stream_,
           loop_, op_, x_, y_, parts);
    if (n_parts > 1)
      launch_combine(name_, n_parts, loop_.y_of_output, loop_.n_outputs, op_, parts, y_, stream_);
  }

  const cpu::ReduceNest& nest_;
  Op op_;
  const T* x_;
  Result* y_;
  StreamRef stream_;
  ReduceLoop loop_{};
  const char* name_ = "";
};

}  // namespace
}  // namespace heddle
