#pragma once

#include "heddle/apps/support/raw_onednn.h"

/// Descriptors of primitives that are described differently in oneDNN 2 and 3. Only *_onednn.cpp
/// files include this.
namespace heddle::bench {

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

/// y = f(x); alpha is the slope of a linear function.
inline dnnl::eltwise_forward::primitive_desc eltwise_forward_pd(dnnl::algorithm kind,
                                                                const dnnl::memory::desc& desc,
                                                                float alpha = 0.0F) {
  const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return onednn::make_pd<dnnl::eltwise_forward>(onednn::attributes(), training, kind, desc, desc,
                                                alpha, 0.0F);
#else
  return onednn::make_pd<dnnl::eltwise_forward>(onednn::attributes(), training, kind, desc, alpha,
                                                0.0F);
#endif
}

inline dnnl::eltwise_backward::primitive_desc eltwise_backward_pd(dnnl::algorithm kind,
                                                                  const dnnl::memory::desc& desc,
                                                                  float alpha = 0.0F) {
  const auto hint = eltwise_forward_pd(kind, desc, alpha);
#if DNNL_VERSION_MAJOR >= 3
  return onednn::make_backward_pd<dnnl::eltwise_backward>(hint, kind, desc, desc, desc, alpha,
                                                          0.0F);
#else
  return onednn::make_backward_pd<dnnl::eltwise_backward>(hint, kind, desc, desc, alpha, 0.0F);
#endif
}

/// dx = dy where y > 0.
inline dnnl::eltwise_backward::primitive_desc relu_backward_pd(const dnnl::memory::desc& desc) {
  return eltwise_backward_pd(dnnl::algorithm::eltwise_relu_use_dst_for_bwd, desc);
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

/// Pooling without padding; training where it is a maximum (it then gives a workspace).
inline PoolPds pool_pds(dnnl::algorithm kind, const dnnl::memory::desc& x,
                        const dnnl::memory::desc& y, int64_t kernel_size, int64_t stride_size) {
  const auto training = dnnl::prop_kind::forward_training;
  const dnnl::memory::dims kernel{kernel_size, kernel_size}, stride{stride_size, stride_size};
  const dnnl::memory::dims none{0, 0};
#if DNNL_VERSION_MAJOR >= 3
  const auto forward = onednn::make_pd<dnnl::pooling_forward>(
      onednn::attributes(), training, kind, x, y, stride, kernel, none, none, none);
  return {forward, onednn::make_backward_pd<dnnl::pooling_backward>(
                       forward, kind, x, forward.dst_desc(), stride, kernel, none, none, none)};
#else
  const auto forward = onednn::make_pd<dnnl::pooling_forward>(onednn::attributes(), training, kind,
                                                              x, y, stride, kernel, none, none);
  return {forward, onednn::make_backward_pd<dnnl::pooling_backward>(
                       forward, kind, x, forward.dst_desc(), stride, kernel, none, none)};
#endif
}

#if DNNL_VERSION_MAJOR >= 3
using LogSoftmaxForward = dnnl::softmax_forward;
#else
using LogSoftmaxForward = dnnl::logsoftmax_forward;
#endif

/// Along the rows of a matrix.
inline LogSoftmaxForward::primitive_desc log_softmax_forward_pd(const dnnl::memory::desc& desc) {
  const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return onednn::make_pd<LogSoftmaxForward>(onednn::attributes(), training,
                                            dnnl::algorithm::softmax_log, desc, desc, 1);
#else
  return onednn::make_pd<LogSoftmaxForward>(onednn::attributes(), training, desc, 1);
#endif
}

}  // namespace heddle::bench
