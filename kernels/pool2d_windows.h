#pragma once

#include "heddle/kernels/pool2d.h"

/// Which elements of an image a pooling window holds, and which windows hold an element: what the
/// kernels of both devices count with.
namespace heddle {

struct PoolRange {
  int64_t begin, end;
};

/// The part of window `out` that lies inside of the image.
HEDDLE_INLINE PoolRange pool_window(int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                                    int64_t size) {
  const int64_t begin = out * stride - pad;
  return {begin < 0 ? 0 : begin, begin + kernel < size ? begin + kernel : size};
}

/// The windows that hold input position `in`.
HEDDLE_INLINE PoolRange pool_windows_of(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                                        int64_t n_out) {
  const int64_t place = in + pad;
  const int64_t first = place < kernel ? 0 : (place - kernel) / stride + 1;
  const int64_t last = place / stride;
  return {first, last + 1 < n_out ? last + 1 : n_out};
}

HEDDLE_INLINE PoolRange pool_rows(const Pool2dGeometry& g, int64_t oh) {
  return pool_window(oh, g.kernel_h, g.stride_h, g.pad_h, g.in_h);
}
HEDDLE_INLINE PoolRange pool_cols(const Pool2dGeometry& g, int64_t ow) {
  return pool_window(ow, g.kernel_w, g.stride_w, g.pad_w, g.in_w);
}

/// Elements that window (oh, ow) of an average divides by.
HEDDLE_INLINE int64_t pool_divisor(const Pool2dGeometry& g, bool count_include_pad, int64_t oh,
                                   int64_t ow) {
  if (count_include_pad) return g.kernel_h * g.kernel_w;
  const PoolRange rows = pool_rows(g, oh), cols = pool_cols(g, ow);
  return (rows.end - rows.begin) * (cols.end - cols.begin);
}

}  // namespace heddle
