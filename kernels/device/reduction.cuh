#pragma once

#include "heddle/kernels/device/reduction_kernels.cuh"
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
namespace {

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
