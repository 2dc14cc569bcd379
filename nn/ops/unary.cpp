#include "heddle/kernels/unary.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

Tensor unary_backward(UnaryOp op, const Tensor& dy, const Tensor& saved) {
  const Tensor dense_dy = in_layout_of(saved, dy);
  Tensor dx = Tensor::empty_like(saved);
  HEDDLE_DISPATCH(
      dx.device(), unary_backward,
      {dx.raw_data(), dense_dy.raw_data(), saved.raw_data(), dx.numel(), dx.dtype(), op});
  return dx;
}

Tensor unary(const char* name, UnaryOp op, const Tensor& input) {
  HEDDLE_CHECK(is_floating(input.dtype()), "{}: x is {}, expected a floating dtype", name,
               input.dtype());
  const Tensor x = dense(input);
  Tensor y = Tensor::empty_like(x);
  HEDDLE_DISPATCH(x.device(), unary_forward,
                  {y.raw_data(), x.raw_data(), x.numel(), x.dtype(), op});
  if (needs_grad({input})) {
    record(name, y, {input}, [op, saved = SavedTensor(saves_result(op) ? y : x)](const Tensor& dy) {
      return Gradients{unary_backward(op, dy, saved.get())};
    });
  }
  return y;
}

}  // namespace

Tensor neg(const Tensor& x) { return unary("neg", UnaryOp::kNeg, x); }
Tensor exp(const Tensor& x) { return unary("exp", UnaryOp::kExp, autocast_to_float32(x)); }
Tensor log(const Tensor& x) { return unary("log", UnaryOp::kLog, autocast_to_float32(x)); }
Tensor sqrt(const Tensor& x) { return unary("sqrt", UnaryOp::kSqrt, x); }
Tensor tanh(const Tensor& x) { return unary("tanh", UnaryOp::kTanh, x); }
Tensor sigmoid(const Tensor& x) { return unary("sigmoid", UnaryOp::kSigmoid, x); }
Tensor relu(const Tensor& x) { return unary("relu", UnaryOp::kRelu, x); }
Tensor gelu(const Tensor& x) { return unary("gelu", UnaryOp::kGelu, x); }

}  // namespace heddle
