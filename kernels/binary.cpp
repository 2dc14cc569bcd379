// y = a op b with broadcasting through strides. One read of each operand and one write an element.
// 16-bit floats are computed in float32 and rounded once; integers wrap around. Deterministic.
#include "heddle/kernels/binary.h"

#include "heddle/kernels/binary_ops.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/loop_nest.h"

namespace heddle {
namespace {

using binary_ops::Compute;

/// Pointers and strides of one tile; strides in elements.
template <class Y, class T>
struct Tile {
  Y* y;
  const T* a;
  const T* b;
  int64_t rows, cols;
  int64_t y_row, a_row, b_row;
  int64_t y_col, a_col, b_col;
};

/// kA and kB: the column strides of a and b where they are known (0 or 1), with y's then 1.
/// No element depends on another's result, also where y is a or b: hence the pragma.
template <class F, class Y, class T, int kA, int kB>
HEDDLE_INLINE void dense_tile(const Tile<Y, T>& tile, Compute<Y, T> alpha) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    Y* y = tile.y + row * tile.y_row;
    const T* a = tile.a + row * tile.a_row;
    const T* b = tile.b + row * tile.b_row;
    HEDDLE_INDEPENDENT_LOOP
    for (int64_t i = 0; i < tile.cols; ++i)
      y[i] = static_cast<Y>(F::apply(static_cast<Compute<Y, T>>(a[i * kA]),
                                     static_cast<Compute<Y, T>>(b[i * kB]), alpha));
  }
}

template <class F, class Y, class T>
void strided_tile(const Tile<Y, T>& tile, Compute<Y, T> alpha) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    Y* y = tile.y + row * tile.y_row;
    const T* a = tile.a + row * tile.a_row;
    const T* b = tile.b + row * tile.b_row;
    for (int64_t i = 0; i < tile.cols; ++i)
      y[i * tile.y_col] =
          static_cast<Y>(F::apply(static_cast<Compute<Y, T>>(a[i * tile.a_col]),
                                  static_cast<Compute<Y, T>>(b[i * tile.b_col]), alpha));
  }
}

template <class F, class Y, class T, int kA, int kB>
void vectorized_tile(const Tile<Y, T>& tile, Compute<Y, T> alpha) {
  cpu::vectorized([](const Tile<Y, T>* t, Compute<Y, T> scale)
                      HEDDLE_VECTOR_LOOP { dense_tile<F, Y, T, kA, kB>(*t, scale); },
                  &tile, alpha);
}

template <class F, class Y, class T>
void run_tile(const Tile<Y, T>& tile, Compute<Y, T> alpha) {
  const bool dense_y = tile.y_col == 1 || tile.cols == 1;
  if (dense_y && tile.a_col == 1 && tile.b_col == 1)
    return vectorized_tile<F, Y, T, 1, 1>(tile, alpha);
  if (dense_y && tile.a_col == 1 && tile.b_col == 0)
    return vectorized_tile<F, Y, T, 1, 0>(tile, alpha);
  if (dense_y && tile.a_col == 0 && tile.b_col == 1)
    return vectorized_tile<F, Y, T, 0, 1>(tile, alpha);
  strided_tile<F, Y, T>(tile, alpha);
}

template <class F, class Y, class T>
void run(const BinaryArgs& args) {
  const auto nest =
      cpu::make_loop_nest<3>(args.y.shape, {args.y.strides, args.a.strides, args.b.strides});
  Y* y = static_cast<Y*>(args.y.data);
  const T* a = static_cast<const T*>(args.a.data);
  const T* b = static_cast<const T*>(args.b.data);
  const auto alpha = binary_ops::alpha_of<Y, T>(args);
  cpu::for_each_tile(nest, [&](const auto& offsets, int64_t rows, int64_t cols) {
    run_tile<F, Y, T>({y + offsets[0], a + offsets[1], b + offsets[2], rows, cols,
                       nest.row_stride(0), nest.row_stride(1), nest.row_stride(2),
                       nest.col_stride(0), nest.col_stride(1), nest.col_stride(2)},
                      alpha);
  });
}

}  // namespace

void cpu::binary(const BinaryArgs& args) {
  binary_ops::dispatch(args, [&]<class F, class Y, class T>() { run<F, Y, T>(args); });
}

}  // namespace heddle
