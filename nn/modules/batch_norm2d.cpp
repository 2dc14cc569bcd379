#include "heddle/nn/modules/batch_norm2d.h"

#include "heddle/nn/ops/whole_batch.h"

namespace heddle {

BatchNorm2d::BatchNorm2d(int64_t channels, BatchNorm2dOptions options)
    : weight(add_parameter("weight", ones({channels}))),
      bias(add_parameter("bias", zeros({channels}))),
      running_mean(add_buffer("running_mean", zeros({channels}))),
      running_var(add_buffer("running_var", ones({channels}))),
      num_batches_tracked(add_buffer("num_batches_tracked", zeros({}, DType::kInt64))),
      options_(options) {}

Tensor BatchNorm2d::forward(const Tensor& x) {
  const bool training = is_training();
  Tensor y = batch_norm(x, weight, bias, running_mean, running_var,
                        {.training = training,
                         .momentum = options_.momentum,
                         .eps = options_.eps,
                         .fuse_relu = options_.fuse_relu});
  const WholeBatch* const whole = WholeBatch::current();
  if (training && (whole == nullptr || whole->leads())) add_(num_batches_tracked, 1.0);
  return y;
}

std::string BatchNorm2d::describe() const {
  return fmt::format("BatchNorm2d({}{})", weight.size(0), options_.fuse_relu ? ", relu" : "");
}

}  // namespace heddle
