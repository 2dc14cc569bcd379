// target = source, for any strides and dtypes. One read and one write an element. Where the source
// runs along another dimension than the target (NCHW to NHWC and back), tiles are transposed, so
// that both sides touch whole cache lines.
#include "heddle/kernels/copy.h"

#include <cstring>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/loop_nest.h"
#include "heddle/kernels/host/transpose.h"

namespace heddle {
namespace {

using cpu::LoopNest;

template <class T, class S>
void copy_row(T* target, const S* source, int64_t target_stride, int64_t source_stride, int64_t n) {
  if (target_stride != 1 || source_stride != 1) {
    for (int64_t i = 0; i < n; ++i)
      target[i * target_stride] = cpu::convert<T>(source[i * source_stride]);
  } else if constexpr (std::is_same_v<T, S>) {
    std::memcpy(target, source, static_cast<size_t>(n) * sizeof(T));
  } else {
    cpu::vectorized(
        [](T* to, const S* from, int64_t count) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < count; ++i) to[i] = cpu::convert<T>(from[i]);
        },
        target, source, n);
  }
}

template <class T, class S>
void copy_rows(const LoopNest<2>& nest, T* target, const S* source) {
  cpu::for_each_tile(nest, [&](const auto& offsets, int64_t rows, int64_t cols) {
    for (int64_t row = 0; row < rows; ++row)
      copy_row(target + offsets[0] + row * nest.row_stride(0),
               source + offsets[1] + row * nest.row_stride(1), nest.col_stride(0),
               nest.col_stride(1), cols);
  });
}

template <class T, class S>
void copy_any(const LoopNest<2>& nest, const CopyArgs& args) {
  copy_rows(nest, static_cast<T*>(args.target.data), static_cast<const S*>(args.source.data));
}

/// The loop along which the source is contiguous while the target is along its columns: -1 where
/// they do not differ so.
int transposed_loop(const LoopNest<2>& nest) {
  if (nest.col_stride(0) != 1 || nest.col_stride(1) == 1) return -1;
  for (int i = nest.sizes.size() - 2; i >= 0; --i)
    if (nest.stride(1, i) == 1 && nest.sizes[i] > 1) return i;
  return -1;
}

/// `loop` becomes the second innermost; the others keep their order.
LoopNest<2> with_rows_from(const LoopNest<2>& nest, int loop) {
  LoopNest<2> moved = nest;
  for (int i = loop; i + 2 < nest.sizes.size(); ++i) {
    std::swap(moved.sizes[i], moved.sizes[i + 1]);
    for (Strides& strides : moved.strides) std::swap(strides[i], strides[i + 1]);
  }
  return moved;
}

template <class T>
void copy_transposed(const LoopNest<2>& nest, T* target, const T* source) {
  const int64_t rows = nest.rows();
  const int64_t cols = nest.cols();
  const int64_t col_block = std::min(cols, cpu::kTransposeColumns);
  const int64_t row_block = std::max<int64_t>(16, cpu::kElementwiseGrain / col_block / 16 * 16);
  const int64_t row_blocks = ceil_div(rows, row_block);
  const int64_t col_blocks = ceil_div(cols, col_block);
  const int64_t n_outer = nest.n_rows() / rows;
  parallel_for(n_outer * row_blocks * col_blocks, [&](int64_t piece) {
    const int64_t col = piece % col_blocks * col_block;
    const int64_t row = piece / col_blocks % row_blocks * row_block;
    const auto offsets = nest.offset_of_row(piece / (col_blocks * row_blocks) * rows);
    cpu::vectorized(
        [](T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t n_rows,
           int64_t n_cols) HEDDLE_VECTOR_LOOP {
          cpu::transpose_block(to, to_stride, from, from_stride, n_rows, n_cols);
        },
        target + offsets[0] + row * nest.row_stride(0) + col, nest.row_stride(0),
        source + offsets[1] + row + col * nest.col_stride(1), nest.col_stride(1),
        std::min(row_block, rows - row), std::min(col_block, cols - col));
  });
}

template <class T>
void copy_bits(const LoopNest<2>& nest, const CopyArgs& args) {
  T* target = static_cast<T*>(args.target.data);
  const T* source = static_cast<const T*>(args.source.data);
  const int loop = transposed_loop(nest);
  if (loop >= 0) return copy_transposed(with_rows_from(nest, loop), target, source);
  copy_rows(nest, target, source);
}

void copy_same_dtype(const LoopNest<2>& nest, const CopyArgs& args) {
  switch (size_of(args.target.dtype)) {  // bits are moved, whatever they mean
    case 1:
      return copy_bits<uint8_t>(nest, args);
    case 2:
      return copy_bits<uint16_t>(nest, args);
    case 4:
      return copy_bits<uint32_t>(nest, args);
    default:
      return copy_bits<uint64_t>(nest, args);
  }
}

}  // namespace

void cpu::copy(const CopyArgs& args) {
  const auto nest =
      make_loop_nest<2>(args.target.shape, {args.target.strides, args.source.strides});
  if (args.target.dtype == args.source.dtype) return copy_same_dtype(nest, args);
  dispatch_all(args.target.dtype, [&]<class T>() {
    dispatch_all(args.source.dtype, [&]<class S>() {
      if constexpr (!std::is_same_v<T, S>) copy_any<T, S>(nest, args);
    });
  });
}

}  // namespace heddle
