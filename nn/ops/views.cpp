#include <algorithm>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/broadcast.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

/// `shape` with its -1 worked out. Errors: two of them, or a count of elements that does not fit.
Shape complete_shape(const Tensor& x, const Shape& shape) {
  Shape complete = shape;
  int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    HEDDLE_CHECK(shape[i] >= -1 && (shape[i] >= 0 || unknown < 0),
                 "reshape: to {}, expected sizes of at least 0 and at most one -1", shape);
    if (shape[i] < 0) {
      unknown = i;
    } else {
      known *= shape[i];
    }
  }
  if (unknown >= 0) {
    HEDDLE_CHECK(known > 0 && x.numel() % known == 0,
                 "reshape: {} has {} elements, which {} does not divide", x.shape(), x.numel(),
                 shape);
    complete[unknown] = x.numel() / known;
  }
  HEDDLE_CHECK(numel(complete) == x.numel(), "reshape: {} has {} elements, {} has {}", x.shape(),
               x.numel(), complete, numel(complete));
  return complete;
}

/// Strides that show x, in logical order, in `shape`; nothing where no strides can. Walks both
/// shapes from the end, one stretch of equal element counts after the other.
std::optional<Strides> view_strides(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return strides_for(shape);
  Strides strides = Strides::filled(shape.size(), 1);
  int to = shape.size() - 1;
  int from = x.dim() - 1;
  while (from >= 0) {
    if (x.shape()[from] == 1) {
      --from;
      continue;
    }
    // Old dimensions from `from` outwards that lie in memory as one.
    const int64_t step = x.strides()[from];
    int64_t stretch = x.shape()[from];
    for (--from; from >= 0; --from) {
      if (x.shape()[from] == 1) continue;
      if (x.strides()[from] != step * stretch) break;
      stretch *= x.shape()[from];
    }
    int64_t covered = 1;
    for (; to >= 0 && (covered < stretch || shape[to] == 1); --to) {
      strides[to] = step * covered;
      covered *= shape[to];
    }
    if (covered != stretch) return std::nullopt;
  }
  return strides;
}

Tensor view_of(const char* op, const Tensor& base, const Shape& shape, const Strides& strides,
               int64_t offset, BackwardFunction backward) {
  Tensor view = base.as_strided(shape, strides, offset);
  record_view(op, view, base, std::move(backward));
  return view;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape complete = complete_shape(x, shape);
  const Tensor base = view_strides(x, complete) ? x : contiguous(x);
  return view_of("reshape", base, complete, *view_strides(base, complete), base.offset(),
                 [from = x.shape()](const Tensor& dy) { return Gradients{reshape(dy, from)}; });
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  if (x.dim() == 0) return reshape(x, {1});
  const int first = wrap_dim("flatten", start_dim, x.dim());
  const int last = wrap_dim("flatten", end_dim, x.dim());
  HEDDLE_CHECK(first <= last, "flatten: start_dim {} comes after end_dim {}", start_dim, end_dim);
  Shape shape;
  for (int i = 0; i < x.dim(); ++i) {
    if (i <= first || i > last) {
      shape.push_back(x.shape()[i]);
    } else {
      shape[first] *= x.shape()[i];
    }
  }
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  const int a = wrap_dim("transpose", dim0, x.dim());
  const int b = wrap_dim("transpose", dim1, x.dim());
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return view_of("transpose", x, shape, strides, x.offset(),
                 [a, b](const Tensor& dy) { return Gradients{transpose(dy, a, b)}; });
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const int d = wrap_dim("narrow", dim, x.dim());
  HEDDLE_CHECK(start >= 0 && length >= 0 && start <= x.shape()[d] - length,
               "narrow: start {} and length {} reach outside of dimension {} of {}", start, length,
               d, x.shape());
  Shape shape = x.shape();
  shape[d] = length;
  return view_of("narrow", x, shape, x.strides(), x.offset() + start * x.strides()[d],
                 [d, start, length, from = x.shape(), format = format_of(x)](const Tensor& dy) {
                   Tensor dx = Tensor::empty(from, dy.dtype(), format, dy.device());
                   fill_(dx, 0.0);
                   Tensor part = narrow(dx, d, start, length);
                   copy_(part, dy);
                   return Gradients{dx};
                 });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check_broadcasts_to("expand", x.shape(), shape);
  const Tensor view = expanded_view(x, shape);
  return view_of(
      "expand", x, shape, view.strides(), view.offset(),
      [from = x.shape()](const Tensor& dy) { return Gradients{sum_to_shape(dy, from)}; });
}

}  // namespace heddle
