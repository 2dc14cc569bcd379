#include "heddle/kernels/conv2d.h"

#include <tuple>

#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/affine.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

using Pair = std::pair<int64_t, int64_t>;

constexpr int64_t kMaxSetting = int64_t{1} << 31;  // products of two stay far from 2^63

std::string text(const Pair& pair) { return fmt::format("({}, {})", pair.first, pair.second); }

std::string describe(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  return fmt::format("x {}, weight {}, stride {}, padding {}, dilation {}, groups {}", x.shape(),
                     weight.shape(), text(options.stride), text(options.padding),
                     text(options.dilation), options.groups);
}

void check_between(const char* name, const Pair& pair, int64_t least) {
  for (const int64_t value : {pair.first, pair.second})
    HEDDLE_CHECK(value >= least && value < kMaxSetting, "conv2d: {} is {}, expected {} or more",
                 name, text(pair), least);
}

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options) {
  HEDDLE_CHECK(x.dim() == 4, "conv2d: x is {}, expected (N, C, H, W)", x.shape());
  HEDDLE_CHECK(weight.dim() == 4, "conv2d: weight is {}, expected (O, C/groups, kH, kW)",
               weight.shape());
  HEDDLE_CHECK(is_floating(x.dtype()), "conv2d: x is {}, expected a floating dtype", x.dtype());
  check_between("stride", options.stride, 1);
  check_between("padding", options.padding, 0);
  check_between("dilation", options.dilation, 1);
  HEDDLE_CHECK(options.groups >= 1 && x.size(1) % options.groups == 0 &&
                   weight.size(0) % options.groups == 0,
               "conv2d: groups must divide the channels of both sides ({})",
               describe(x, weight, options));
  HEDDLE_CHECK(weight.size(1) == x.size(1) / options.groups,
               "conv2d: weight has {} input channels, expected {} ({})", weight.size(1),
               x.size(1) / options.groups, describe(x, weight, options));
  check_weight_and_bias("conv2d", x, weight, bias);
}

/// floor((in + 2 pad - dilation (k - 1) - 1) / stride) + 1, checked before the subtraction can go
/// below zero.
int64_t output_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                    const std::string& description) {
  HEDDLE_CHECK(kernel >= 1 && in >= 1, "conv2d: image and kernel must not be empty ({})",
               description);
  const int64_t padded = in + 2 * pad;
  const int64_t reach = dilation * (kernel - 1) + 1;
  HEDDLE_CHECK(reach <= padded, "conv2d: a window of {} does not fit a padded input of {} ({})",
               reach, padded, description);
  return (padded - reach) / stride + 1;
}

Conv2dGeometry geometry_of(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  const std::string description = describe(x, weight, options);
  Conv2dGeometry g;
  g.dtype = x.dtype();
  g.batch = x.size(0);
  g.in_channels = x.size(1);
  g.in_h = x.size(2);
  g.in_w = x.size(3);
  g.out_channels = weight.size(0);
  g.kernel_h = weight.size(2);
  g.kernel_w = weight.size(3);
  std::tie(g.stride_h, g.stride_w) = options.stride;
  std::tie(g.pad_h, g.pad_w) = options.padding;
  std::tie(g.dilation_h, g.dilation_w) = options.dilation;
  g.groups = options.groups;
  g.out_h = output_size(g.in_h, g.kernel_h, g.stride_h, g.pad_h, g.dilation_h, description);
  g.out_w = output_size(g.in_w, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w, description);
  return g;
}

Tensor backward_data(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w) {
  Tensor dx = Tensor::empty({g.batch, g.in_channels, g.in_h, g.in_w}, g.dtype,
                            MemoryFormat::kChannelsLast, dy.device());
  const Conv2dBackwardDataArgs args{g, dx.raw_data(), dy.raw_data(), w.raw_data()};
  HEDDLE_DISPATCH_VENDORS(dy.device(), conv2d_backward_data, args, cudnn);
  return dx;
}

/// dw, and db where asked.
Gradients backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                          bool with_bias) {
  Tensor dw = Tensor::empty({g.out_channels, g.in_channels / g.groups, g.kernel_h, g.kernel_w},
                            g.dtype, MemoryFormat::kChannelsLast, dy.device());
  Tensor db;
  if (with_bias)
    db = Tensor::empty({g.out_channels}, g.dtype, MemoryFormat::kContiguous, dy.device());
  const Conv2dBackwardWeightArgs args{g, dw.raw_data(), with_bias ? db.raw_data() : nullptr,
                                      x.raw_data(), dy.raw_data()};
  HEDDLE_DISPATCH_VENDORS(dy.device(), conv2d_backward_weight, args, cudnn);
  return {dw, db};
}

}  // namespace

Tensor conv2d(const Tensor& given_x, const Tensor& given_weight, const Tensor& given_bias,
              const Conv2dOptions& options) {
  const Tensor x = autocast(given_x);
  const Tensor weight = autocast_operand(given_weight), bias = autocast_operand(given_bias);
  check_operands(x, weight, bias, options);
  const Conv2dGeometry g = geometry_of(x, weight, options);
  const Tensor image = dense(x, MemoryFormat::kChannelsLast);
  const Tensor w = dense(weight, MemoryFormat::kChannelsLast);
  const Tensor b = bias.defined() ? dense(bias) : bias;
  Tensor y = Tensor::empty({g.batch, g.out_channels, g.out_h, g.out_w}, g.dtype,
                           MemoryFormat::kChannelsLast, x.device());
  const Conv2dForwardArgs args{g,
                               y.raw_data(),
                               image.raw_data(),
                               w.raw_data(),
                               b.defined() ? b.raw_data() : nullptr,
                               options.fuse_relu};
  HEDDLE_DISPATCH_VENDORS(x.device(), conv2d_forward, args, cudnn);

  record_affine(
      "conv2d", y, {x, given_weight, given_bias, image, w}, MemoryFormat::kChannelsLast,
      options.fuse_relu,
      [g](const Tensor& dy, const Tensor& saved_w) { return backward_data(g, dy, saved_w); },
      [g](const Tensor& dy, const Tensor& saved_x, bool with_bias) {
        return backward_weight(g, dy, saved_x, with_bias);
      });
  return y;
}

}  // namespace heddle
