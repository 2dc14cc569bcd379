// Batch normalisation by oneDNN over channels-last rows. Its fused ReLU keeps a mask of its own
// from forward to backward, which heddle computes again from x instead: with ReLU only evaluation
// is here.
#include "heddle/kernels/batch_norm.h"

#include <cmath>

#include "heddle/kernels/host/onednn.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
using Flags = dnnl::normalization_flags;

struct Layout {
  Desc image, channels;
  Flags flags;
};

Layout layout_of(const BatchNormProblem& p, bool given_statistics) {
  auto flags = given_statistics ? Flags::use_global_stats : Flags::none;
  if (p.weight != nullptr) flags |= Flags::use_scale;
  if (p.bias != nullptr) flags |= Flags::use_shift;
  return {describe({1, p.channels, p.rows, 1}, p.dtype, Tag::nhwc),
          describe({p.channels}, DType::kFloat32, Tag::a), flags};
}

dnnl::batch_normalization_forward::primitive_desc forward_pd(const dnnl::primitive_attr& attr,
                                                             dnnl::prop_kind kind, const Layout& l,
                                                             double eps) {
#if DNNL_VERSION_MAJOR >= 3
  return make_pd<dnnl::batch_normalization_forward>(attr, kind, l.image, l.image,
                                                    static_cast<float>(eps), l.flags);
#else
  return make_pd<dnnl::batch_normalization_forward>(attr, kind, l.image, static_cast<float>(eps),
                                                    l.flags);
#endif
}

void add_affine(Plan& plan, const BatchNormProblem& p, const Desc& channels) {
  if (p.weight != nullptr) plan.input(DNNL_ARG_SCALE, channels, channels);
  if (p.bias != nullptr) plan.input(DNNL_ARG_SHIFT, channels, channels);
}

Plan plan_of(const BatchNormInferenceArgs& args) {
  const Layout l = layout_of(args.problem, true);
  const auto attr = args.problem.relu ? attributes_with_relu() : attributes();
  Plan plan(forward_pd(attr, dnnl::prop_kind::forward_inference, l, args.eps));
  plan.output(DNNL_ARG_DST, l.image, l.image)
      .input(DNNL_ARG_SRC, l.image, l.image)
      .input(DNNL_ARG_MEAN, l.channels, l.channels)
      .input(DNNL_ARG_VARIANCE, l.channels, l.channels);
  add_affine(plan, args.problem, l.channels);
  return plan;
}

Plan plan_of(const BatchNormForwardArgs& args) {
  const Layout l = layout_of(args.problem, false);
  Plan plan(forward_pd(attributes(), dnnl::prop_kind::forward_training, l, args.eps));
  plan.output(DNNL_ARG_DST, l.image, l.image)
      .output(DNNL_ARG_MEAN, l.channels, l.channels)
      .output(DNNL_ARG_VARIANCE, l.channels, l.channels)
      .input(DNNL_ARG_SRC, l.image, l.image);
  add_affine(plan, args.problem, l.channels);
  return plan;
}

/// The statistics come as inv_std: the variance that belongs to it has no eps to be added.
Plan plan_of(const BatchNormBackwardArgs& args) {
  const Layout l = layout_of(args.problem, !args.training);
  const auto hint = forward_pd(attributes(), dnnl::prop_kind::forward_training, l, 0.0);
  const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
  const auto pd = make_backward_pd<dnnl::batch_normalization_backward>(hint, kind, l.image, l.image,
                                                                       l.image, 0.0F, l.flags);
#else
  const auto pd = make_backward_pd<dnnl::batch_normalization_backward>(hint, kind, l.image, l.image,
                                                                       0.0F, l.flags);
#endif
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_SRC, l.image, l.image)
      .output(DNNL_ARG_DIFF_SCALE, l.channels, l.channels)
      .output(DNNL_ARG_DIFF_SHIFT, l.channels, l.channels)
      .input(DNNL_ARG_DIFF_DST, l.image, l.image)
      .input(DNNL_ARG_SRC, l.image, l.image)
      .input(DNNL_ARG_MEAN, l.channels, l.channels)
      .input(DNNL_ARG_VARIANCE, l.channels, l.channels)
      .input(DNNL_ARG_SCALE, l.channels, l.channels);
#if DNNL_VERSION_MAJOR < 3  // which counts it, though no gradient depends on it
  plan.input(DNNL_ARG_SHIFT, l.channels, l.channels);
#endif
  return plan;
}

template <class Args>
bool supports(const Args& args) {
  const BatchNormProblem& p = args.problem;
  return dtype_supported(p.dtype) && p.rows > 0 && p.channels > 0 &&
         find_plan(args.key(), [&] { return plan_of(args); }) != nullptr;
}

/// Of the plan's last operands those that are there.
template <class... Pointers>
void run_affine(const Plan& plan, const BatchNormProblem& p, Pointers... pointers) {
  if (p.weight != nullptr && p.bias != nullptr) return plan.run({pointers..., p.weight, p.bias});
  if (p.weight != nullptr) return plan.run({pointers..., p.weight});
  if (p.bias != nullptr) return plan.run({pointers..., p.bias});
  plan.run({pointers...});
}

void invert_std(const void* var, double eps, int64_t channels, void* inv_std) {
  for (int64_t c = 0; c < channels; ++c)
    static_cast<float*>(inv_std)[c] = static_cast<float>(
        1.0 / std::sqrt(static_cast<double>(static_cast<const float*>(var)[c]) + eps));
}

}  // namespace

bool batch_norm_inference_supports(const BatchNormInferenceArgs& args) { return supports(args); }
bool batch_norm_forward_supports(const BatchNormForwardArgs& args) {
  return !args.problem.relu && supports(args);
}
bool batch_norm_backward_supports(const BatchNormBackwardArgs& args) {
  const BatchNormProblem& p = args.problem;
  return !p.relu && p.weight != nullptr && p.bias != nullptr && args.dx != nullptr &&
         supports(args);
}

void batch_norm_inference(const BatchNormInferenceArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return plan_of(args); });
  run_affine(plan, args.problem, args.y, args.x, args.mean, args.var);
  invert_std(args.var, args.eps, args.problem.channels, args.inv_std);
}

void batch_norm_forward(const BatchNormForwardArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return plan_of(args); });
  run_affine(plan, args.problem, args.y, args.mean, args.var, args.x);
  invert_std(args.var, args.eps, args.problem.channels, args.inv_std);
}

void batch_norm_backward(const BatchNormBackwardArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return plan_of(args); });
  const int64_t channels = args.problem.channels;
  const cpu::Scratch var(channels * static_cast<int64_t>(sizeof(float)));
  for (int64_t c = 0; c < channels; ++c) {
    const double inv_std = static_cast<const float*>(args.inv_std)[c];
    var.as<float>()[c] = static_cast<float>(1.0 / (inv_std * inv_std));
  }
  plan.run({
    args.dx, args.dw, args.db, args.dy, args.x, args.mean, var.as<void>(), args.problem.weight
#if DNNL_VERSION_MAJOR < 3
        ,
        args.problem.bias
#endif
  });
}

}  // namespace heddle::onednn
