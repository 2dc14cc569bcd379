#include "heddle/kernels/fill.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"

namespace heddle {

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor y = Tensor::empty(shape, dtype, MemoryFormat::kContiguous, device);
  HEDDLE_DISPATCH(y.device(), fill, {y.view(), value});
  return y;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}
Tensor ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1.0, dtype, device);
}

Tensor arange(int64_t n, DType dtype, Device device) {
  HEDDLE_CHECK(n >= 0, "arange: n is {}, expected at least 0", n);
  Tensor y = Tensor::empty({n}, dtype, MemoryFormat::kContiguous, device);
  HEDDLE_DISPATCH(y.device(), arange, {y.view()});
  return y;
}

void fill_(Tensor& target, double value) {
  check_in_place("fill_", target);
  HEDDLE_DISPATCH(target.device(), fill, {target.view(), value});
  record_in_place("fill_", target, {}, [](const Tensor&) { return Gradients{Tensor()}; });
}

}  // namespace heddle
