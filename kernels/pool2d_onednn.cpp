// Pooling by oneDNN, over channels-last images as heddle stores them. Its maximum drops NaN and
// takes minus infinity for the lowest finite number, so of max pooling only the gradient is here:
// its places are those of heddle, one byte each.
#include "heddle/kernels/host/onednn.h"
#include "heddle/kernels/pool2d.h"

namespace heddle::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct Layout {
  Desc x, y;
  Dims stride, kernel, pad;
  dnnl::algorithm algorithm;
};

Layout layout_of(const Pool2dGeometry& g, dnnl::algorithm algorithm) {
  return {describe({g.batch, g.channels, g.in_h, g.in_w}, g.dtype, Tag::nhwc),
          describe({g.batch, g.channels, g.out_h, g.out_w}, g.dtype, Tag::nhwc),
          {g.stride_h, g.stride_w},
          {g.kernel_h, g.kernel_w},
          {g.pad_h, g.pad_w},
          algorithm};
}

dnnl::algorithm average(bool count_include_pad) {
  return count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                           : dnnl::algorithm::pooling_avg_exclude_padding;
}

dnnl::pooling_forward::primitive_desc forward_pd(const Layout& l) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return make_pd<dnnl::pooling_forward>(attributes(), kind, l.algorithm, l.x, l.y, l.stride,
                                        l.kernel, Dims{0, 0}, l.pad, l.pad);
#else
  return make_pd<dnnl::pooling_forward>(attributes(), kind, l.algorithm, l.x, l.y, l.stride,
                                        l.kernel, l.pad, l.pad);
#endif
}

dnnl::pooling_backward::primitive_desc backward_pd(const Layout& l) {
#if DNNL_VERSION_MAJOR >= 3
  return make_backward_pd<dnnl::pooling_backward>(forward_pd(l), l.algorithm, l.x, l.y, l.stride,
                                                  l.kernel, Dims{0, 0}, l.pad, l.pad);
#else
  return make_backward_pd<dnnl::pooling_backward>(forward_pd(l), l.algorithm, l.x, l.y, l.stride,
                                                  l.kernel, l.pad, l.pad);
#endif
}

Plan plan_of(const AvgPool2dForwardArgs& args) {
  const Layout l = layout_of(args.geometry, average(args.count_include_pad));
  Plan plan(forward_pd(l));
  plan.output(DNNL_ARG_DST, l.y, l.y).input(DNNL_ARG_SRC, l.x, l.x);
  return plan;
}

Plan plan_of(const AvgPool2dBackwardArgs& args) {
  const Layout l = layout_of(args.geometry, average(args.count_include_pad));
  Plan plan(backward_pd(l));
  plan.output(DNNL_ARG_DIFF_SRC, l.x, l.x).input(DNNL_ARG_DIFF_DST, l.y, l.y);
  return plan;
}

/// Errors: dnnl::error where the library's places are not stored as heddle's.
Plan plan_of(const MaxPool2dBackwardArgs& args) {
  const Pool2dGeometry& g = args.geometry;
  const Layout l = layout_of(g, dnnl::algorithm::pooling_max);
  const auto pd = backward_pd(l);
  const Desc places(Dims{g.batch, g.channels, g.out_h, g.out_w}, dnnl::memory::data_type::u8,
                    Tag::nhwc);
  if (pd.workspace_desc() != places) throw dnnl::error(dnnl_unimplemented, "other places");
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_SRC, l.x, l.x)
      .input(DNNL_ARG_DIFF_DST, l.y, l.y)
      .input(DNNL_ARG_WORKSPACE, places, places);
  return plan;
}

template <class Args>
bool supports(const Args& args) {
  const Pool2dGeometry& g = args.geometry;
  return dtype_supported(g.dtype) && g.batch > 0 && g.channels > 0 &&
         find_plan(args.key(), [&] { return plan_of(args); }) != nullptr;
}

/// Where windows overlap, bfloat16 gradients come out further off than one rounding.
bool rounds_often(const Pool2dGeometry& g) {
  return g.dtype == DType::kBFloat16 && (g.kernel_h > g.stride_h || g.kernel_w > g.stride_w);
}

}  // namespace

bool max_pool2d_backward_supports(const MaxPool2dBackwardArgs& args) {
  return args.place_dtype == DType::kUInt8 && !rounds_often(args.geometry) && supports(args);
}
bool avg_pool2d_forward_supports(const AvgPool2dForwardArgs& args) { return supports(args); }
bool avg_pool2d_backward_supports(const AvgPool2dBackwardArgs& args) {
  return !rounds_often(args.geometry) && supports(args);
}

void max_pool2d_backward(const MaxPool2dBackwardArgs& args) {
  require_plan(args.key(), [&] { return plan_of(args); }).run({args.dx, args.dy, args.places});
}

void avg_pool2d_forward(const AvgPool2dForwardArgs& args) {
  require_plan(args.key(), [&] { return plan_of(args); }).run({args.y, args.x});
}

void avg_pool2d_backward(const AvgPool2dBackwardArgs& args) {
  require_plan(args.key(), [&] { return plan_of(args); }).run({args.dx, args.dy});
}

}  // namespace heddle::onednn
