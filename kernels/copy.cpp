// target = source, for any strides and dtypes. One read and one write an element. Where the source
// runs along another dimension than the target (NCHW to NHWC and back), tiles are transposed, so
// that both sides touch whole cache lines.
#include "heddle/kernels/copy.h"

#include <cstring>

#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/loop_nest.h"

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

void copy_same_dtype(const LoopNest<2>& nest, const CopyArgs& args) {
  switch (size_of(args.target.dtype)) {  // bits are moved, whatever they mean
    case 1:
      return copy_any<uint8_t, uint8_t>(nest, args);
    case 2:
      return copy_any<uint16_t, uint16_t>(nest, args);
    case 4:
      return copy_any<uint32_t, uint32_t>(nest, args);
    default:
      return copy_any<uint64_t, uint64_t>(nest, args);
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
