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

/// A copy on another device; nothing is recorded.
Tensor moved(const Tensor& x, Device device, bool asynchronous) {
  const NoGradGuard no_grad;
  const Tensor from = dense(x.detach());
  const int64_t bytes = from.numel() * size_of(from.dtype());
  const bool to_host = device.type == DeviceType::kCpu;
  Tensor y = asynchronous && to_host
                 ? Tensor::from_storage(pinned_storage(bytes), from.shape(),
                                        strides_for(from.shape(), format_of(from)), 0, from.dtype())
                 : Tensor::empty(from.shape(), from.dtype(), format_of(from), device);
  memory::copy(y.raw_data(), device, from.raw_data(), from.device(), bytes, !asynchronous);
  if (asynchronous) {  // until the copy is done, nobody else is given the host's memory
    const StreamRef stream = current_stream(to_host ? from.device() : device);
    (to_host ? y : from).storage()->record_use(stream);
  }
  return y;
}

/// What copy_ reads: `source` on the device of `target`.
Tensor beside(const Tensor& target, const Tensor& source) {
  if (source.device() != target.device()) return moved(source, target.device(), false);
  return apart_from(target, source);
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

Tensor to(const Tensor& x, Device device, bool asynchronous) {
  if (x.device() == device) return x;
  Tensor y = moved(x, device, asynchronous);
  y.set_name(x.name());
  if (needs_grad({x})) {
    record("to", y, {x}, [from = x.device()](const Tensor& dy) { return Gradients{to(dy, from)}; });
  }
  return y;
}

Tensor pinned(const Tensor& x) {
  HEDDLE_CHECK(x.device().type == DeviceType::kCpu, "pinned: x is on {}, expected the CPU",
               x.device().to_string());
  const NoGradGuard no_grad;
  Tensor y = Tensor::from_storage(pinned_storage(x.numel() * size_of(x.dtype())), x.shape(),
                                  strides_for(x.shape(), format_of(x)), 0, x.dtype());
  copy_(y, x.detach());
  return y;
}

void copy_(Tensor& target, const Tensor& source) {
  check_writable("copy_", target);
  check_broadcasts_to("copy_", source.shape(), target.shape());
  check_in_place("copy_", target);
  const Tensor from = beside(target, source);
  HEDDLE_DISPATCH(target.device(), copy,
                  {target.view(), expanded_view(from, target.shape()).view()});
  const Tensor input = is_floating(target.dtype()) ? source : source.detach();
  record_in_place(
      "copy_", target, {input},
      [shape = source.shape(), dtype = source.dtype(), device = source.device()](const Tensor& dy) {
        return Gradients{Tensor(), to(to(sum_to_shape(dy, shape), dtype), device)};
      });
}

}  // namespace heddle
