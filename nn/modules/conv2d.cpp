#include "heddle/nn/modules/conv2d.h"

#include "heddle/nn/modules/initialisation.h"

namespace heddle {
namespace {

Tensor initial_weight(int64_t in, int64_t out, Size2d kernel, int64_t groups) {
  HEDDLE_CHECK(in > 0 && out > 0 && kernel.first > 0 && kernel.second > 0 && groups > 0 &&
                   in % groups == 0 && out % groups == 0,
               "Conv2d: in {}, out {}, kernel {}, groups {}; expected sizes of at least 1, and "
               "groups that divide in and out",
               in, out, kernel.to_string(), groups);
  const Shape shape{out, in / groups, kernel.first, kernel.second};
  return initial_values(shape, in / groups * kernel.first * kernel.second,
                        MemoryFormat::kChannelsLast);
}

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dLayerOptions options)
    : weight(add_parameter("weight", initial_weight(in, out, kernel, options.groups))),
      options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups,
               .fuse_relu = options.fuse_relu} {
  const int64_t fan_in = in / options.groups * kernel.first * kernel.second;
  if (options.bias) bias_ = &add_parameter("bias", initial_values({out}, fan_in));
}

Tensor Conv2d::forward(const Tensor& x) { return conv2d(x, weight, bias(), options_); }

std::string Conv2d::describe() const {
  const Shape& shape = weight.shape();
  std::string text = fmt::format("Conv2d({}, {}, kernel {}x{}", shape[1] * options_.groups,
                                 shape[0], shape[2], shape[3]);
  if (options_.stride != Size2d(1))
    text += fmt::format(", stride {}x{}", options_.stride.first, options_.stride.second);
  if (options_.padding != Size2d(0))
    text += fmt::format(", padding {}x{}", options_.padding.first, options_.padding.second);
  if (options_.dilation != Size2d(1))
    text += fmt::format(", dilation {}x{}", options_.dilation.first, options_.dilation.second);
  if (options_.groups != 1) text += fmt::format(", groups {}", options_.groups);
  if (bias_ == nullptr) text += ", no bias";
  return text + (options_.fuse_relu ? ", relu)" : ")");
}

int64_t Conv2d::flops(const Tensor& /*x*/, const Tensor& y) const {
  return 2 * y.numel() * (weight.numel() / weight.size(0));
}

}  // namespace heddle
