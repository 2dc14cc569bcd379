// The place of the first maximum, and the gradient of max, which goes there. One read an element.
// Deterministic.
#include <limits>

#include "heddle/kernels/host/reduce_nest.h"
#include "heddle/kernels/reduce.h"

namespace heddle {
namespace {

using cpu::LoopNest;
using cpu::ReduceNest;
using cpu::ReduceOrder;

template <class T>
struct Best {
  T value;
  int64_t index;
};

template <class T>
bool is_better(T value, T best) {
  return value > best || (value != value && best == best);  // the first NaN beats every number
}

template <class T>
int64_t first_maximum(const T* x, const LoopNest<1>& reduced) {
  using Value = std::conditional_t<sizeof(T) == 2, float, T>;
  Best<Value> best{static_cast<Value>(x[0]), 0};
  int64_t index = 0;
  cpu::for_each_run(reduced, 0, reduced.n_rows() * reduced.cols(), [&](int64_t offset, int64_t n) {
    for (int64_t i = 0; i < n; ++i, ++index) {
      const auto value = static_cast<Value>(x[offset + i * reduced.col_stride(0)]);
      if (is_better(value, best.value)) best = {value, index};
    }
  });
  return best.index;
}

/// Calls body(x offset, y offset) for each output, in parallel.
template <class Body>
void for_each_output(const ReduceNest& nest, const Body& body) {
  const int64_t n_outputs = nest.kept.n_rows() * nest.kept.cols();
  const int64_t n_reduced = std::max<int64_t>(1, nest.reduced.n_rows() * nest.reduced.cols());
  const int64_t grain = std::max<int64_t>(1, cpu::kElementwiseGrain / n_reduced);
  parallel_ranges(n_outputs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto offsets = nest.kept.offset_of_row(i / nest.kept.cols());
      const int64_t col = i % nest.kept.cols();
      body(offsets[0] + col * nest.kept.col_stride(0), offsets[1] + col * nest.kept.col_stride(1));
    }
  });
}

}  // namespace

void cpu::argmax(const ArgmaxArgs& args) {
  const ReduceNest nest = make_reduce_nest(args.x.shape, args.x.strides, args.index.shape,
                                           args.index.strides, ReduceOrder::kLogical);
  int64_t* index = args.index.as<int64_t>();
  dispatch_all(args.x.dtype, [&]<class T>() {
    const T* x = args.x.as<T>();
    for_each_output(nest, [&](int64_t x_offset, int64_t index_offset) {
      index[index_offset] = first_maximum(x + x_offset, nest.reduced);
    });
  });
}

void cpu::max_backward(const MaxBackwardArgs& args) {
  const ReduceNest nest = make_reduce_nest(args.dx.shape, args.dx.strides, args.dy.shape,
                                           args.dy.strides, ReduceOrder::kLogical);
  const int64_t* index = args.index.as<int64_t>();  // laid out as dy
  dispatch_float(args.dx.dtype, [&]<class T>() {
    T* dx = args.dx.as<T>();
    const T* dy = args.dy.as<T>();
    for_each_output(nest, [&](int64_t dx_offset, int64_t dy_offset) {
      const int64_t place = index[dy_offset];
      const int64_t row_offset = nest.reduced.offset_of_row(place / nest.reduced.cols())[0];
      const int64_t col_offset = place % nest.reduced.cols() * nest.reduced.col_stride(0);
      dx[dx_offset + row_offset + col_offset] = dy[dy_offset];
    });
  });
}

}  // namespace heddle
