#include "heddle/nn/ops/affine.h"

namespace heddle {
namespace {

void check_as_x(const char* op, const char* name, const Tensor& x, const Tensor& operand) {
  HEDDLE_CHECK(operand.dtype() == x.dtype(), "{}: {} is {} and x is {}, expected the same", op,
               name, operand.dtype(), x.dtype());
  HEDDLE_CHECK(operand.device() == x.device(), "{}: {} is on {} and x on {}", op, name,
               operand.device().to_string(), x.device().to_string());
}

}  // namespace

void check_weight_and_bias(const char* op, const Tensor& x, const Tensor& weight,
                           const Tensor& bias) {
  check_as_x(op, "weight", x, weight);
  if (!bias.defined()) return;
  HEDDLE_CHECK(bias.shape() == Shape({weight.size(0)}), "{}: bias is {}, expected {}", op,
               bias.shape(), Shape({weight.size(0)}));
  check_as_x(op, "bias", x, bias);
}

}  // namespace heddle
