// Convolution by oneDNN. Forward, the library takes channels-last images as fast as its own blocked
// layout, except small ones of many channels. Backward it is slower on them in float32 (1.1x
// to 1.6x on AVX2 and AVX-512), so the images are reordered to the blocked layout and back: that
// costs less. In bfloat16 (AVX-512) it is hardly slower, and the reorders cost more. Weights, which
// are small, are reordered in each call.
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/host/onednn.h"

namespace heddle::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

// Pixels: at 4x4 and 512 channels the blocked layout is 1.2x to 1.8x faster, at 8x8 it is level.
constexpr int64_t kSmallImage = 16;

/// Memory as heddle stores it, and as the primitive is asked to take it.
struct Descriptions {
  Desc x, w, y, bias;
  Desc asked_x, asked_w, asked_y, no_bias;
  dnnl::memory::dims stride, dilation, padding;
};

Desc describe_weights(const Conv2dGeometry& g, bool any) {
  const int64_t in = g.in_channels / g.groups;
  if (g.groups == 1)
    return describe({g.out_channels, in, g.kernel_h, g.kernel_w}, g.dtype,
                    any ? Tag::any : Tag::ohwi);
  return describe({g.groups, g.out_channels / g.groups, in, g.kernel_h, g.kernel_w}, g.dtype,
                  any ? Tag::any : Tag::gohwi);
}

enum class Images { kChannelsLast, kAnyLayout };

Images forward_images(const Conv2dGeometry& g) {
  return g.out_h * g.out_w <= kSmallImage ? Images::kAnyLayout : Images::kChannelsLast;
}

Images backward_images(const Conv2dGeometry& g) {
  return g.dtype == DType::kBFloat16 ? forward_images(g) : Images::kAnyLayout;
}

Descriptions descriptions_of(const Conv2dGeometry& g, Images images) {
  const bool keep_layout = images == Images::kChannelsLast;
  const dnnl::memory::dims x_dims{g.batch, g.in_channels, g.in_h, g.in_w};
  const dnnl::memory::dims y_dims{g.batch, g.out_channels, g.out_h, g.out_w};
  Descriptions d;
  d.x = describe(x_dims, g.dtype, Tag::nhwc);
  d.y = describe(y_dims, g.dtype, Tag::nhwc);
  d.w = describe_weights(g, false);
  d.bias = describe({g.out_channels}, g.dtype, Tag::a);
  d.asked_x = keep_layout ? d.x : describe(x_dims, g.dtype, Tag::any);
  d.asked_y = keep_layout ? d.y : describe(y_dims, g.dtype, Tag::any);
  d.asked_w = describe_weights(g, true);
  d.stride = {g.stride_h, g.stride_w};
  d.dilation = {g.dilation_h - 1, g.dilation_w - 1};
  d.padding = {g.pad_h, g.pad_w};
  return d;
}

/// Padding after the last row or column that the output's size makes use of.
dnnl::memory::dims padding_after(const Conv2dGeometry& g) {
  const auto after = [](int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                        int64_t before) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1 - in - before;
  };
  return {after(g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_h),
          after(g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_w)};
}

dnnl::convolution_forward::primitive_desc forward_pd(const Conv2dGeometry& g, const Descriptions& d,
                                                     bool with_bias,
                                                     const dnnl::primitive_attr& attr) {
  return make_pd<dnnl::convolution_forward>(attr, dnnl::prop_kind::forward_training,
                                            dnnl::algorithm::convolution_direct, d.asked_x,
                                            d.asked_w, with_bias ? d.bias : d.no_bias, d.asked_y,
                                            d.stride, d.dilation, d.padding, padding_after(g));
}

Plan forward_plan(const Conv2dForwardArgs& args) {
  const Descriptions d = descriptions_of(args.geometry, forward_images(args.geometry));
  const bool with_bias = args.bias != nullptr;
  const auto pd =
      forward_pd(args.geometry, d, with_bias, args.relu ? attributes_with_relu() : attributes());
  Plan plan(pd);
  plan.output(DNNL_ARG_DST, d.y, pd.dst_desc())
      .input(DNNL_ARG_SRC, d.x, pd.src_desc())
      .input(DNNL_ARG_WEIGHTS, d.w, pd.weights_desc());
  if (with_bias) plan.input(DNNL_ARG_BIAS, d.bias, pd.bias_desc());
  return plan;
}

Plan backward_data_plan(const Conv2dBackwardDataArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  const Descriptions d = descriptions_of(g, backward_images(g));
  const auto pd = make_backward_pd<dnnl::convolution_backward_data>(
      forward_pd(g, d, false, attributes()), dnnl::algorithm::convolution_direct, d.asked_x,
      d.asked_w, d.asked_y, d.stride, d.dilation, d.padding, padding_after(g));
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_SRC, d.x, pd.diff_src_desc())
      .input(DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc())
      .input(DNNL_ARG_WEIGHTS, d.w, pd.weights_desc());
  return plan;
}

Plan backward_weight_plan(const Conv2dBackwardWeightArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  const Descriptions d = descriptions_of(g, backward_images(g));
  const bool with_bias = args.db != nullptr;
  const auto pd = make_backward_pd<dnnl::convolution_backward_weights>(
      forward_pd(g, d, with_bias, attributes()), dnnl::algorithm::convolution_direct, d.asked_x,
      d.asked_w, with_bias ? d.bias : d.no_bias, d.asked_y, d.stride, d.dilation, d.padding,
      padding_after(g));
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_WEIGHTS, d.w, pd.diff_weights_desc())
      .input(DNNL_ARG_SRC, d.x, pd.src_desc())
      .input(DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc());
  if (with_bias) plan.output(DNNL_ARG_DIFF_BIAS, d.bias, pd.diff_bias_desc());
  return plan;
}

bool worth_asking(const Conv2dGeometry& g) {
  return dtype_supported(g.dtype) && g.batch > 0 && g.in_channels > 0 && g.out_channels > 0;
}

}  // namespace

bool conv2d_forward_supports(const Conv2dForwardArgs& args) {
  return worth_asking(args.geometry) &&
         find_plan(args.key(), [&] { return forward_plan(args); }) != nullptr;
}

bool conv2d_backward_data_supports(const Conv2dBackwardDataArgs& args) {
  return worth_asking(args.geometry) &&
         find_plan(args.key(), [&] { return backward_data_plan(args); }) != nullptr;
}

bool conv2d_backward_weight_supports(const Conv2dBackwardWeightArgs& args) {
  return worth_asking(args.geometry) &&
         find_plan(args.key(), [&] { return backward_weight_plan(args); }) != nullptr;
}

void conv2d_forward(const Conv2dForwardArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return forward_plan(args); });
  if (args.bias != nullptr) return plan.run({args.y, args.x, args.w, args.bias});
  plan.run({args.y, args.x, args.w});
}

void conv2d_backward_data(const Conv2dBackwardDataArgs& args) {
  require_plan(args.key(), [&] {
    return backward_data_plan(args);
  }).run({args.dx, args.dy, args.w});
}

void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return backward_weight_plan(args); });
  if (args.db != nullptr) return plan.run({args.dw, args.x, args.dy, args.db});
  plan.run({args.dw, args.x, args.dy});
}

}  // namespace heddle::onednn
