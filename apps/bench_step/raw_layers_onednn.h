#pragma once

#include "heddle/apps/bench_step/raw_net_onednn.h"

/// What the files of RawNet share, and what is called differently in oneDNN 2 and 3.
namespace heddle::bench {

using Tag = dnnl::memory::format_tag;

template <class PrimitiveDesc>
RawNet::Step RawNet::step_of(const PrimitiveDesc& pd, Arguments arguments) {
  return {dnnl::primitive(pd.get()), std::move(arguments), pd.scratchpad_desc(), {}};
}

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

/// dx = dy where y > 0.
inline dnnl::eltwise_backward::primitive_desc relu_backward_pd(const dnnl::memory::desc& desc) {
  const auto kind = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  const auto hint = onednn::make_pd<dnnl::eltwise_forward>(onednn::attributes(), training, kind,
                                                           desc, desc, 0.0F, 0.0F);
  return onednn::make_backward_pd<dnnl::eltwise_backward>(hint, kind, desc, desc, desc, 0.0F, 0.0F);
#else
  const auto hint = onednn::make_pd<dnnl::eltwise_forward>(onednn::attributes(), training, kind,
                                                           desc, 0.0F, 0.0F);
  return onednn::make_backward_pd<dnnl::eltwise_backward>(hint, kind, desc, desc, 0.0F, 0.0F);
#endif
}

struct BatchNormPds {
  dnnl::batch_normalization_forward::primitive_desc forward;
  dnnl::batch_normalization_backward::primitive_desc backward;
};

inline BatchNormPds batch_norm_pds(const dnnl::memory::desc& desc, bool relu) {
  using Flags = dnnl::normalization_flags;
  Flags flags = Flags::use_scale | Flags::use_shift;
  if (relu) flags = flags | Flags::fuse_norm_relu;
  const auto training = dnnl::prop_kind::forward_training;
  const auto both = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
  const auto forward = onednn::make_pd<dnnl::batch_normalization_forward>(
      onednn::attributes(), training, desc, desc, 1e-5F, flags);
  return {forward, onednn::make_backward_pd<dnnl::batch_normalization_backward>(
                       forward, both, desc, desc, desc, 1e-5F, flags)};
#else
  const auto forward = onednn::make_pd<dnnl::batch_normalization_forward>(
      onednn::attributes(), training, desc, 1e-5F, flags);
  return {forward, onednn::make_backward_pd<dnnl::batch_normalization_backward>(
                       forward, both, desc, desc, 1e-5F, flags)};
#endif
}

struct PoolPds {
  dnnl::pooling_forward::primitive_desc forward;
  dnnl::pooling_backward::primitive_desc backward;
};

/// The average over whole images of `size` x `size`.
inline PoolPds global_average_pds(const dnnl::memory::desc& x, const dnnl::memory::desc& y,
                                  int64_t size) {
  const auto kind = dnnl::algorithm::pooling_avg_exclude_padding;
  const auto training = dnnl::prop_kind::forward_training;
  const dnnl::memory::dims kernel{size, size}, none{0, 0};
#if DNNL_VERSION_MAJOR >= 3
  const auto forward = onednn::make_pd<dnnl::pooling_forward>(
      onednn::attributes(), training, kind, x, y, kernel, kernel, none, none, none);
  return {forward, onednn::make_backward_pd<dnnl::pooling_backward>(
                       forward, kind, x, forward.dst_desc(), kernel, kernel, none, none, none)};
#else
  const auto forward = onednn::make_pd<dnnl::pooling_forward>(onednn::attributes(), training, kind,
                                                              x, y, kernel, kernel, none, none);
  return {forward, onednn::make_backward_pd<dnnl::pooling_backward>(
                       forward, kind, x, forward.dst_desc(), kernel, kernel, none, none)};
#endif
}

}  // namespace heddle::bench
