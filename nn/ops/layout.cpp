#include "heddle/nn/ops/layout.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

Tensor copy_of(const Tensor& x, DType dtype, MemoryFormat format) {
  Tensor y = Tensor::empty(x.shape(), dtype, format, x.device());
  HEDDLE_DISPATCH(x.device(), copy, {y.view(), x.view()});
  return y;
}

}  // namespace

MemoryFormat format_of(const Tensor& x) {
  return !x.is_contiguous() && x.is_contiguous(MemoryFormat::kChannelsLast)
             ? MemoryFormat::kChannelsLast
             : MemoryFormat::kContiguous;
}

Tensor dense(const Tensor& x) { return dense(x, format_of(x)); }

Tensor dense(const Tensor& x, MemoryFormat format) {
  return x.is_contiguous(format) ? x : copy_of(x, x.dtype(), format);
}

Tensor in_layout_of(const Tensor& like, const Tensor& x) {
  HEDDLE_CHECK(x.shape() == like.shape() && x.dtype() == like.dtype(),
               "gradient: is {} {}, expected {} {}", x.dtype(), x.shape(), like.dtype(),
               like.shape());
  return dense(x, format_of(like));
}

Tensor copy_gradient(const Tensor& gradient, const Tensor& like) {
  return copy_of(gradient, like.dtype(), format_of(like));
}

Tensor ones_gradient(const Tensor& like) {
  Tensor ones = Tensor::empty_like(like);
  fill_(ones, 1.0);
  return ones;
}

}  // namespace heddle
