// y = value, and y[i] = i. One write an element. Deterministic.
#include "heddle/kernels/fill.h"

#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/loop_nest.h"

namespace heddle {
namespace {

template <class T>
void fill_tile(T* y, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols, T value) {
  for (int64_t row = 0; row < rows; ++row) {
    T* out = y + row * row_stride;
    if (col_stride == 1) {
      std::fill(out, out + cols, value);
    } else {
      for (int64_t col = 0; col < cols; ++col) out[col * col_stride] = value;
    }
  }
}

}  // namespace

void cpu::fill(const FillArgs& args) {
  const auto nest = make_loop_nest<1>(args.y.shape, {args.y.strides});
  dispatch_all(args.y.dtype, [&]<class T>() {
    T* y = args.y.as<T>();
    const T value = convert<T>(args.value);
    for_each_tile(nest, [&](const auto& offsets, int64_t rows, int64_t cols) {
      fill_tile(y + offsets[0], nest.row_stride(0), nest.col_stride(0), rows, cols, value);
    });
  });
}

void cpu::arange(const ArangeArgs& args) {
  dispatch_all(args.y.dtype, [&]<class T>() {
    T* y = args.y.as<T>();
    parallel_ranges(args.y.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = convert<T>(i);
    });
  });
}

}  // namespace heddle
