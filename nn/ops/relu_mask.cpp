#include "heddle/nn/ops/relu_mask.h"

#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/unary.h"

namespace heddle {

Tensor mask_by_relu(const Tensor& dy, const Tensor& y) {
  Tensor masked = Tensor::empty_like(y);
  HEDDLE_DISPATCH(
      y.device(), unary_backward,
      {masked.raw_data(), dy.raw_data(), y.raw_data(), y.numel(), y.dtype(), UnaryOp::kRelu});
  return masked;
}

}  // namespace heddle
