#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/support/raw_onednn.h"
#include "heddle/kernels/host/isa.h"

namespace heddle::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

struct Descriptions {
  Desc x, w, y, bias;
  dnnl::memory::dims stride, dilation, padding, padding_after;
};

Descriptions describe(const ConvWork& work, Tag images) {
  const Conv2dGeometry& g = work.geometry;
  const int64_t rest_h = (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1;
  const int64_t rest_w = (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
  return {
      onednn::describe({g.batch, g.in_channels, g.in_h, g.in_w}, g.dtype, images),
      onednn::describe({g.out_channels, g.in_channels, g.kernel_h, g.kernel_w}, g.dtype, Tag::any),
      onednn::describe({g.batch, g.out_channels, g.out_h, g.out_w}, g.dtype, images),
      work.bias ? onednn::describe({g.out_channels}, g.dtype, Tag::a) : Desc(),
      {g.stride_h, g.stride_w},
      {g.dilation_h - 1, g.dilation_w - 1},
      {g.pad_h, g.pad_w},
      {rest_h - g.in_h - g.pad_h, rest_w - g.in_w - g.pad_w}};
}

dnnl::convolution_forward::primitive_desc forward_pd(const Descriptions& d, bool relu) {
  dnnl::primitive_attr attr = onednn::attributes();
  if (relu) attr = onednn::attributes_with_relu(0.0F);
  return onednn::make_pd<dnnl::convolution_forward>(
      attr, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, d.x, d.w,
      d.bias, d.y, d.stride, d.dilation, d.padding, d.padding_after);
}

RawPrimitive forward(const ConvWork& work, const Descriptions& d) {
  const auto pd = forward_pd(d, work.relu);
  const DType dtype = work.geometry.dtype;
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_SRC, random_memory(pd.src_desc(), dtype))
      .bind(DNNL_ARG_WEIGHTS, random_memory(pd.weights_desc(), dtype))
      .bind(DNNL_ARG_DST, random_memory(pd.dst_desc(), dtype));
  if (work.bias) primitive.bind(DNNL_ARG_BIAS, random_memory(pd.bias_desc(), dtype));
  return primitive;
}

RawPrimitive backward_data(const ConvWork& work, const Descriptions& d) {
  const auto pd = onednn::make_backward_pd<dnnl::convolution_backward_data>(
      forward_pd(d, false), dnnl::algorithm::convolution_direct, d.x, d.w, d.y, d.stride,
      d.dilation, d.padding, d.padding_after);
  const DType dtype = work.geometry.dtype;
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_DIFF_SRC, random_memory(pd.diff_src_desc(), dtype))
      .bind(DNNL_ARG_WEIGHTS, random_memory(pd.weights_desc(), dtype))
      .bind(DNNL_ARG_DIFF_DST, random_memory(pd.diff_dst_desc(), dtype));
  return primitive;
}

RawPrimitive backward_weight(const ConvWork& work, const Descriptions& d) {
  const auto pd = onednn::make_backward_pd<dnnl::convolution_backward_weights>(
      forward_pd(d, false), dnnl::algorithm::convolution_direct, d.x, d.w, d.bias, d.y, d.stride,
      d.dilation, d.padding, d.padding_after);
  const DType dtype = work.geometry.dtype;
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_SRC, random_memory(pd.src_desc(), dtype))
      .bind(DNNL_ARG_DIFF_WEIGHTS, random_memory(pd.diff_weights_desc(), dtype))
      .bind(DNNL_ARG_DIFF_DST, random_memory(pd.diff_dst_desc(), dtype));
  if (work.bias) primitive.bind(DNNL_ARG_DIFF_BIAS, random_memory(pd.diff_bias_desc(), dtype));
  return primitive;
}

RawPrimitive make(const ConvWork& work, Direction direction, Tag images) {
  const Descriptions d = describe(work, images);
  switch (direction) {
    case Direction::kForward:
      return forward(work, d);
    case Direction::kData:
      return backward_data(work, d);
    case Direction::kWeight:
      break;
  }
  return backward_weight(work, d);
}

}  // namespace

void add_raw_sides(const ConvWork& work, Direction direction, Sides& sides) {
  for (const auto& [name, images] :
       {std::pair{"oneDNN blocked", Tag::any}, std::pair{"oneDNN channels-last", Tag::nhwc}})
    try {
      const auto primitive = std::make_shared<RawPrimitive>(make(work, direction, images));
      sides.push_back({name, [primitive] { primitive->run(); }});
    } catch (const dnnl::error&) {
      continue;  // not on this processor
    }
}

void limit_onednn_to_active_isa() {
  if (cpu::active_isa() == cpu::Isa::kAvx512) return;
  const bool avx2 = cpu::active_isa() == cpu::Isa::kAvx2;
  dnnl::set_max_cpu_isa(avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
}

}  // namespace heddle::bench
