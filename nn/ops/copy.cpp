#include "heddle/kernels/copy.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/broadcast.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

void check_writable(const char* op, const Tensor& target) {
  for (int i = 0; i < target.dim(); ++i)
    HEDDLE_CHECK(target.shape()[i] <= 1 || target.strides()[i] != 0,
                 "{}: target of shape {} is an expanded view (strides {}): elements share memory",
                 op, target.shape(), target.strides());
}

/// A copy of x that has a gradient: dx = dy in x's dtype.
Tensor recorded_copy(const char* op, const Tensor& x, DType dtype, MemoryFormat format) {
  Tensor y = Tensor::empty(x.shape(), dtype, format, x.device());
  HEDDLE_DISPATCH(x.device(), copy, {y.view(), x.view()});
  if (is_floating(dtype) && needs_grad({x})) {
    record(op, y, {x}, [from = x.dtype()](const Tensor& dy) { return Gradients{to(dy, from)}; });
  }
  return y;
}

}  // namespace

Tensor clone(const Tensor& x) { return recorded_copy("clone", x, x.dtype(), format_of(x)); }

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  if (x.is_contiguous(format)) return x;
  return recorded_copy("contiguous", x, x.dtype(), format);
}

Tensor to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return recorded_copy("to", x, dtype, format_of(x));
}

void copy_(Tensor& target, const Tensor& source) {
  check_writable("copy_", target);
  check_broadcasts_to("copy_", source.shape(), target.shape());
  check_in_place("copy_", target);
  const Tensor from = apart_from(target, source);
  HEDDLE_DISPATCH(target.device(), copy,
                  {target.view(), expanded_view(from, target.shape()).view()});
  const Tensor input = is_floating(target.dtype()) ? source : source.detach();
  record_in_place("copy_", target, {input},
                  [shape = source.shape(), dtype = source.dtype()](const Tensor& dy) {
                    return Gradients{Tensor(), to(sum_to_shape(dy, shape), dtype)};
                  });
}

}  // namespace heddle
