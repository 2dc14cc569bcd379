#include "heddle/kernels/log_softmax.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

int64_t row_count(const Tensor& x) { return x.numel() / x.shape().back(); }

Tensor log_softmax_backward(const Tensor& incoming, const Tensor& y) {
  const Tensor dy = in_layout_of(y, incoming);
  Tensor dx = Tensor::empty_like(y);
  const LogSoftmaxBackwardArgs args{dx.raw_data(), dy.raw_data(),    y.raw_data(),
                                    row_count(y),  y.shape().back(), y.dtype()};
  HEDDLE_DISPATCH_CUDA_VENDOR(y.device(), log_softmax_backward, args, cudnn);
  return dx;
}

}  // namespace

Tensor log_softmax(const Tensor& given) {
  const Tensor input = autocast_to_float32(given);
  HEDDLE_CHECK(is_floating(input.dtype()), "log_softmax: x is {}, expected a floating dtype",
               input.dtype());
  HEDDLE_CHECK(input.dim() >= 1 && input.shape().back() > 0,
               "log_softmax: x is {}, expected at least one element along the last dimension",
               input.shape());
  const Tensor x = dense(input, MemoryFormat::kContiguous);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), MemoryFormat::kContiguous, x.device());
  const LogSoftmaxArgs args{y.raw_data(), x.raw_data(), row_count(x), x.shape().back(), x.dtype()};
  HEDDLE_DISPATCH_CUDA_VENDOR(x.device(), log_softmax_forward, args, cudnn);
  if (needs_grad({input})) {
    record("log_softmax", y, {input}, [saved = SavedTensor(y)](const Tensor& dy) {
      return Gradients{log_softmax_backward(dy, saved.get())};
    });
  }
  return y;
}

}  // namespace heddle
