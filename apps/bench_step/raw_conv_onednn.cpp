// Convolution, batch-norm, pooling and sums of RawNet.
#include <cmath>

#include "heddle/apps/bench_step/raw_layers_onednn.h"

namespace heddle::bench {
namespace {

using Desc = dnnl::memory::desc;

struct ConvDescs {
  Desc x, w, y, bias;
  dnnl::memory::dims stride, dilation, padding, padding_after;
};

ConvDescs conv_descs(const dnnl::memory::dims& x, const RawNet::Conv& spec, DType dtype) {
  const int64_t pad = spec.kernel / 2, size = x[2];
  const int64_t out_size = (size + 2 * pad - spec.kernel) / spec.stride + 1;
  const int64_t after = (out_size - 1) * spec.stride + spec.kernel - size - pad;
  return {onednn::describe(x, dtype, Tag::any),
          onednn::describe({spec.out, x[1], spec.kernel, spec.kernel}, dtype, Tag::any),
          onednn::describe({x[0], spec.out, out_size, out_size}, dtype, Tag::any),
          spec.bias ? onednn::describe({spec.out}, dtype, Tag::a) : Desc(),
          {spec.stride, spec.stride},
          {0, 0},
          {pad, pad},
          {after, after}};
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_pd(const ConvDescs& d, bool relu) {
  const auto attr = relu ? onednn::attributes_with_relu(0.0F) : onednn::attributes();
  return onednn::make_pd<dnnl::convolution_forward>(attr, dnnl::prop_kind::forward_training,
                                                    kDirect, d.x, d.w, d.bias, d.y, d.stride,
                                                    d.dilation, d.padding, d.padding_after);
}

/// What batch-norm in training does to its running mean and variance.
std::function<void()> running_averages(const dnnl::memory& mean, const dnnl::memory& variance,
                                       int64_t channels) {
  return [mean, variance, averages = std::vector<float>(2 * channels), channels]() mutable {
    const auto* m = static_cast<const float*>(mean.get_data_handle());
    const auto* v = static_cast<const float*>(variance.get_data_handle());
    for (int64_t c = 0; c < channels; ++c) {
      averages[c] += 0.1F * (m[c] - averages[c]);
      averages[channels + c] += 0.1F * (v[c] - averages[channels + c]);
    }
  };
}

}  // namespace

RawNet::Memory RawNet::relu_backward(const Memory& y, const Memory& dy) {
  const Memory gradient = in_layout(dy, y.get_desc());
  add_step(
      step_of(relu_backward_pd(y.get_desc()),
              {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_SRC, gradient}}));
  return gradient;
}

RawNet::Node RawNet::conv(const Memory& input, const Conv& spec) {
  const auto x_dims = dims_of(input.get_desc());
  const ConvDescs d = conv_descs(x_dims, spec, dtype_);
  const auto pd = forward_pd(d, spec.relu);
  const Memory x = in_layout(input, pd.src_desc()), y = zeros(pd.dst_desc());
  const float scale = 1.0F / std::sqrt(static_cast<float>(x_dims[1] * spec.kernel * spec.kernel));
  const Desc plain =
      onednn::describe({spec.out, x_dims[1], spec.kernel, spec.kernel}, dtype_, Tag::abcd);
  Parameter& w = parameter(plain, pd.weights_desc(), dtype_, scale);
  Parameter* const bias = spec.bias ? &parameter(d.bias, pd.bias_desc(), dtype_, scale) : nullptr;
  Arguments arguments{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w.value}, {DNNL_ARG_DST, y}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, bias->value);
  add_step(step_of(pd, std::move(arguments)));

  const auto backward = [this, d, spec, x, y, &w, bias](const Memory& output_gradient) {
    const Memory dy = spec.relu ? relu_backward(y, output_gradient) : output_gradient;
    const auto hint = forward_pd(d, false);
    const auto weight_pd = onednn::make_backward_pd<dnnl::convolution_backward_weights>(
        hint, kDirect, d.x, d.w, d.bias, d.y, d.stride, d.dilation, d.padding, d.padding_after);
    add_weight_gradient(weight_pd, x, dy, w, bias);
    if (!spec.input_gradient) return Memory();
    const auto data_pd = onednn::make_backward_pd<dnnl::convolution_backward_data>(
        hint, kDirect, d.x, d.w, d.y, d.stride, d.dilation, d.padding, d.padding_after);
    return add_data_gradient(data_pd, dy, w);
  };
  return {y, backward};
}

RawNet::Node RawNet::batch_norm(const Memory& x, bool relu) {
  const int64_t channels = dims_of(x.get_desc())[1];
  const BatchNormPds pds = batch_norm_pds(x.get_desc(), relu);
  const Desc per_channel = onednn::describe({channels}, DType::kFloat32, Tag::a);
  Parameter& scale = parameter(per_channel, per_channel, DType::kFloat32, 1.0F);
  Parameter& shift = parameter(per_channel, per_channel, DType::kFloat32, 0.0F);
  const Memory y = zeros(x.get_desc()), mean = zeros(per_channel), variance = zeros(per_channel);
  const Memory workspace = zeros(pds.forward.workspace_desc());
  Arguments arguments{{DNNL_ARG_SRC, x},
                      {DNNL_ARG_DST, y},
                      {DNNL_ARG_MEAN, mean},
                      {DNNL_ARG_VARIANCE, variance},
                      {DNNL_ARG_SCALE, scale.value},
                      {DNNL_ARG_SHIFT, shift.value}};
  if (relu) arguments.emplace(DNNL_ARG_WORKSPACE, workspace);
  add_step(step_of(pds.forward, std::move(arguments)));
  Step running;
  running.plain = running_averages(mean, variance, channels);
  add_step(std::move(running));

  const auto backward = [this, pds, relu, x, mean, variance, workspace, &scale,
                         &shift](const Memory& output_gradient) {
    const Memory dy = in_layout(output_gradient, x.get_desc()), dx = zeros(x.get_desc());
    Arguments gradients{{DNNL_ARG_SRC, x},
                        {DNNL_ARG_MEAN, mean},
                        {DNNL_ARG_VARIANCE, variance},
                        {DNNL_ARG_DIFF_DST, dy},
                        {DNNL_ARG_SCALE, scale.value},
                        {DNNL_ARG_SHIFT, shift.value},
                        {DNNL_ARG_DIFF_SRC, dx},
                        {DNNL_ARG_DIFF_SCALE, scale.gradient},
                        {DNNL_ARG_DIFF_SHIFT, shift.gradient}};
    if (relu) gradients.emplace(DNNL_ARG_WORKSPACE, workspace);
    add_step(step_of(pds.backward, std::move(gradients)));
    return dx;
  };
  return {y, backward};
}

RawNet::Memory RawNet::add(const Memory& a, const Memory& b) {
  const Memory other = in_layout(b, a.get_desc()), sum = zeros(a.get_desc());
  const auto pd = onednn::make_pd<dnnl::binary>(onednn::attributes(), dnnl::algorithm::binary_add,
                                                a.get_desc(), a.get_desc(), a.get_desc());
  add_step(step_of(pd, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, sum}}));
  return sum;
}

RawNet::Node RawNet::add_relu(const Memory& a, const Memory& b) {
  const Memory other = in_layout(b, a.get_desc()), y = zeros(a.get_desc());
  const auto pd =
      onednn::make_pd<dnnl::binary>(onednn::attributes_with_relu(0.0F), dnnl::algorithm::binary_add,
                                    a.get_desc(), a.get_desc(), a.get_desc());
  add_step(step_of(pd, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, y}}));
  return {y, [this, y](const Memory& dy) { return relu_backward(y, dy); }};
}

RawNet::Node RawNet::global_average(const Memory& x) {
  const auto dims = dims_of(x.get_desc());
  const PoolPds pds =
      pool_pds(dnnl::algorithm::pooling_avg_exclude_padding, x.get_desc(),
               onednn::describe({dims[0], dims[1], 1, 1}, dtype_, Tag::any), dims[2], dims[2]);
  const Memory y = zeros(pds.forward.dst_desc());
  add_step(step_of(pds.forward, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}));
  return {y, [this, pds, x](const Memory& output_gradient) {
            const Memory dy = in_layout(output_gradient, pds.backward.diff_dst_desc());
            const Memory dx = zeros(pds.backward.diff_src_desc());
            add_step(step_of(pds.backward, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}}));
            return dx;
          }};
}

}  // namespace heddle::bench
