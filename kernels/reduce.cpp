// y = scale * sum of x, or the maximum of x. Accumulated in float32 (float64 for float64, int64 for
// integers) over blocks, whose results are added in float64: the error does not grow with the size.
// The order depends on the shape alone, so every number of threads gives the same bits.
#include "heddle/kernels/reduce.h"

#include <limits>

#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/reduce_nest.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle {
namespace {

using cpu::ReduceNest;

constexpr int64_t kRowBlock = 2048;    // elements of a row that one set of lanes sums
constexpr int64_t kLanes = 32;         // side by side within a row
constexpr int64_t kColBlock = 256;     // columns whose sums stay in the first-level cache
constexpr int64_t kRowsPerBlock = 64;  // rows that one set of column sums takes
constexpr int64_t kMaxChunks = 64;     // parts of one long reduction: enough for 64 threads

template <class T>
struct Sum {
  using Value =
      std::conditional_t<std::is_integral_v<T>, uint64_t,  // unsigned: overflow is defined
                         std::conditional_t<std::is_same_v<T, double>, double, float>>;
  using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  using Result = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

  template <class C>
  static constexpr C identity() {
    return C(0);
  }
  template <class C>
  HEDDLE_INLINE static C combine(C sum, C value) {
    return sum + value;
  }
  static Result result(Total total, double scale) {
    if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(total);
    if constexpr (!std::is_integral_v<T>) return cpu::convert<T>(total * scale);
  }
};

template <class T>
struct Max {
  using Value = std::conditional_t<sizeof(T) == 2, float, T>;
  using Total = Value;
  using Result = T;

  template <class C>
  static constexpr C identity() {
    using Limits = std::numeric_limits<C>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class C>
  HEDDLE_INLINE static C combine(C best, C value) {
    return ((value > best) | (value != value)) ? value : best;  // once NaN, NaN
  }
  static Result result(Total total, double) { return cpu::convert<T>(total); }
};

template <template <class> class F, class T>
HEDDLE_INLINE typename F<T>::Total dense_row_total(const T* x, int64_t n) {
  using Op = F<T>;
  using Value = typename Op::Value;
  using Total = typename Op::Total;
  Total total = Op::template identity<Total>();
  for (int64_t begin = 0; begin < n; begin += kRowBlock) {
    const int64_t end = n - begin < kRowBlock ? n : begin + kRowBlock;
    Value lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = Op::template identity<Value>();
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l)
        lanes[l] = Op::combine(lanes[l], static_cast<Value>(x[i + l]));
    for (int64_t l = 0; i < end; ++i, ++l)
      lanes[l] = Op::combine(lanes[l], static_cast<Value>(x[i]));
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) lanes[l] = Op::combine(lanes[l], lanes[l + width]);
    total = Op::combine(total, static_cast<Total>(lanes[0]));
  }
  return total;
}

template <template <class> class F, class T>
typename F<T>::Total row_total(const T* x, int64_t n, int64_t stride) {
  using Total = typename F<T>::Total;
  Total total = F<T>::template identity<Total>();
  if (stride == 1) {
    cpu::vectorized([](const T* px, int64_t count, Total* out)
                        HEDDLE_VECTOR_LOOP { *out = dense_row_total<F, T>(px, count); },
                    x, n, &total);
    return total;
  }
  for (int64_t i = 0; i < n; ++i)
    total =
        F<T>::combine(total, static_cast<Total>(static_cast<typename F<T>::Value>(x[i * stride])));
  return total;
}

/// totals[col] op= the rows x, x + row_stride, ...: `n_rows` of them, up to kRowsPerBlock.
template <template <class> class F, class T>
void add_row_block(const T* x, int64_t n_rows, int64_t row_stride, int64_t col_stride,
                   int64_t n_cols, typename F<T>::Total* totals) {
  using Value = typename F<T>::Value;
  using Total = typename F<T>::Total;
  cpu::vectorized(
      [](const T* px, int64_t rows, int64_t row_step, int64_t col_step, int64_t cols, Total* out)
          HEDDLE_VECTOR_LOOP {
            Value sums[kColBlock];
            for (int64_t col = 0; col < cols; ++col) sums[col] = F<T>::template identity<Value>();
            for (int64_t row = 0; row < rows; ++row) {
              const T* from = px + row * row_step;
              if (col_step == 1) {
                for (int64_t col = 0; col < cols; ++col)
                  sums[col] = F<T>::combine(sums[col], static_cast<Value>(from[col]));
              } else {
                for (int64_t col = 0; col < cols; ++col)
                  sums[col] = F<T>::combine(sums[col], static_cast<Value>(from[col * col_step]));
              }
            }
            for (int64_t col = 0; col < cols; ++col)
              out[col] = F<T>::combine(out[col], static_cast<Total>(sums[col]));
          },
      x, n_rows, row_stride, col_stride, n_cols, totals);
}

/// How the work is cut: `items` are outputs (or blocks of neighbouring outputs), each reduced in
/// `n_chunks` parts of `chunk` of its n_reduced terms.
struct Cut {
  int64_t n_items;
  int64_t n_reduced;
  int64_t n_chunks;
  int64_t chunk;
  int64_t items_per_piece;
};

Cut cut(int64_t n_items, int64_t n_reduced, int64_t item_width) {
  Cut c{n_items, n_reduced, 1, std::max<int64_t>(n_reduced, 1), 1};
  const int64_t item_work = std::max<int64_t>(n_reduced * item_width, 1);
  const int64_t wanted =
      std::min(kMaxChunks, n_items * item_work / cpu::kElementwiseGrain) / n_items;
  if (wanted > 1) {
    c.chunk = (n_reduced + wanted - 1) / wanted;
    c.n_chunks = (n_reduced + c.chunk - 1) / c.chunk;
  }
  c.items_per_piece =
      std::max<int64_t>(1, cpu::kElementwiseGrain / std::max<int64_t>(c.chunk * item_width, 1));
  return c;
}

/// Calls body(item, chunk, begin, end) for every item and part of the reduction, in parallel.
template <class Body>
void for_each_part(const Cut& c, const Body& body) {
  const int64_t n_groups = (c.n_items + c.items_per_piece - 1) / c.items_per_piece;
  parallel_for(n_groups * c.n_chunks, [&](int64_t piece) {
    const int64_t chunk = piece % c.n_chunks;
    const int64_t begin = chunk * c.chunk;
    const int64_t end = std::min(begin + c.chunk, c.n_reduced);
    const int64_t first = piece / c.n_chunks * c.items_per_piece;
    const int64_t last = std::min(first + c.items_per_piece, c.n_items);
    for (int64_t item = first; item < last; ++item) body(item, chunk, begin, end);
  });
}

int64_t count(const cpu::LoopNest<1>& nest) { return nest.n_rows() * nest.cols(); }

template <template <class> class F, class T>
class Reduction {
 public:
  using Op = F<T>;
  using Total = typename Op::Total;

  Reduction(const ReduceArgs& args, const ReduceNest& nest)
      : nest_(nest),
        x_(static_cast<const T*>(args.x.data)),
        y_(static_cast<typename Op::Result*>(args.y.data)),
        scale_(args.scale),
        kept_cols_(nest.kept.cols()),
        n_outputs_(nest.kept.n_rows() * nest.kept.cols()) {}

  void run() {
    if (n_outputs_ == 0) return;
    const bool along_rows =
        n_outputs_ == 1 || nest_.reduced.col_stride(0) <= nest_.kept.col_stride(0);
    const int64_t width = along_rows ? 1 : std::min(kColBlock, kept_cols_);
    blocks_per_row_ = along_rows ? kept_cols_ : (kept_cols_ + width - 1) / width;
    const Cut c = cut(nest_.kept.n_rows() * blocks_per_row_, count(nest_.reduced), width);
    if (c.n_chunks == 1) return run_parts(c, along_rows, nullptr);
    const cpu::Scratch scratch(c.n_chunks * n_outputs_ * static_cast<int64_t>(sizeof(Total)));
    run_parts(c, along_rows, scratch.as<Total>());
    combine_parts(c, scratch.as<Total>());
  }

 private:
  void run_parts(const Cut& c, bool along_rows, Total* parts) {
    for_each_part(c, [&](int64_t item, int64_t chunk, int64_t begin, int64_t end) {
      Total* part = parts == nullptr ? nullptr : parts + chunk * n_outputs_;
      if (along_rows) return reduce_rows(item, begin, end, part);
      reduce_columns(item, begin, end, part);
    });
  }

  void store(int64_t output, Total total, Total* part) {
    if (part != nullptr) {
      part[output] = total;
      return;
    }
    const auto offsets = nest_.kept.offset_of_row(output / kept_cols_);
    y_[offsets[1] + output % kept_cols_ * nest_.kept.col_stride(1)] = Op::result(total, scale_);
  }

  void reduce_rows(int64_t output, int64_t begin, int64_t end, Total* part) {
    const T* x = x_ + nest_.kept.offset_of_row(output / kept_cols_)[0] +
                 output % kept_cols_ * nest_.kept.col_stride(0);
    const int64_t stride = nest_.reduced.col_stride(0);
    Total total = Op::template identity<Total>();
    cpu::for_each_run(nest_.reduced, begin, end, [&](int64_t offset, int64_t n) {
      total = Op::combine(total, row_total<F, T>(x + offset, n, stride));
    });
    store(output, total, part);
  }

  void reduce_columns(int64_t item, int64_t begin, int64_t end, Total* part) {
    const int64_t row = item / blocks_per_row_;
    const int64_t col = item % blocks_per_row_ * kColBlock;
    const int64_t n_cols = std::min(kColBlock, kept_cols_ - col);
    const T* x = x_ + nest_.kept.offset_of_row(row)[0] + col * nest_.kept.col_stride(0);
    Total totals[kColBlock];
    std::fill(totals, totals + n_cols, Op::template identity<Total>());
    const int64_t stride = nest_.reduced.col_stride(0);
    cpu::for_each_run(nest_.reduced, begin, end, [&](int64_t offset, int64_t n) {
      for (int64_t r = 0; r < n; r += kRowsPerBlock)
        add_row_block<F, T>(x + offset + r * stride, std::min(kRowsPerBlock, n - r), stride,
                            nest_.kept.col_stride(0), n_cols, totals);
    });
    for (int64_t i = 0; i < n_cols; ++i) store(row * kept_cols_ + col + i, totals[i], part);
  }

  void combine_parts(const Cut& c, Total* parts) {
    parallel_ranges(n_outputs_, cpu::kElementwiseGrain / c.n_chunks,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        Total total = parts[i];
                        for (int64_t k = 1; k < c.n_chunks; ++k)
                          total = Op::combine(total, parts[k * n_outputs_ + i]);
                        store(i, total, nullptr);
                      }
                    });
  }

  const ReduceNest& nest_;
  const T* x_;
  typename Op::Result* y_;
  double scale_;
  int64_t kept_cols_;
  int64_t n_outputs_;
  int64_t blocks_per_row_ = 1;
};

}  // namespace

void cpu::reduce(const ReduceArgs& args) {
  const ReduceNest nest = make_reduce_nest(args.x.shape, args.x.strides, args.y.shape,
                                           args.y.strides, ReduceOrder::kMemory);
  dispatch_all(args.x.dtype, [&]<class T>() {
    if (args.op == ReduceOp::kSum) return Reduction<Sum, T>(args, nest).run();
    Reduction<Max, T>(args, nest).run();
  });
}

}  // namespace heddle
