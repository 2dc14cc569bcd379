#include "heddle/nn/modules/linear.h"

#include "heddle/nn/modules/initialisation.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

Tensor initial_weight(int64_t in, int64_t out) {
  HEDDLE_CHECK(in > 0 && out > 0, "Linear: in {}, out {}; expected at least 1", in, out);
  return initial_values({out, in}, in);
}

Tensor initial_weight(ImageSize in, int64_t out) {
  HEDDLE_CHECK(in.channels > 0 && in.rows > 0 && in.columns > 0 && out > 0,
               "Linear: image ({}, {}, {}), out {}; expected at least 1", in.channels, in.rows,
               in.columns, out);
  return initial_values({out, in.channels, in.rows, in.columns}, in.channels * in.rows * in.columns,
                        MemoryFormat::kChannelsLast);
}

}  // namespace

Linear::Linear(Tensor values, int64_t in, int64_t out, LinearOptions options)
    : weight(add_parameter("weight", std::move(values), {out, in})), fuse_relu_(options.fuse_relu) {
  if (options.bias) bias_ = &add_parameter("bias", initial_values({out}, in));
}

Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : Linear(initial_weight(in, out), in, out, options) {}

Linear::Linear(ImageSize in, int64_t out, LinearOptions options)
    : Linear(initial_weight(in, out), in.channels * in.rows * in.columns, out, options) {}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias(), fuse_relu_); }

std::string Linear::describe() const {
  return fmt::format("Linear({}, {}{}{})", weight.numel() / weight.size(0), weight.size(0),
                     bias_ == nullptr ? ", no bias" : "", fuse_relu_ ? ", relu" : "");
}

int64_t Linear::flops(const Tensor& /*x*/, const Tensor& y) const {
  return 2 * y.numel() * (weight.numel() / weight.size(0));
}

}  // namespace heddle
