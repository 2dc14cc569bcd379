#pragma once

#include "heddle/apps/bench_step/raw_net_onednn.h"
#include "heddle/apps/support/raw_descriptors_onednn.h"

/// What the files of RawNet share.
namespace heddle::bench {

using Tag = dnnl::memory::format_tag;

template <class PrimitiveDesc>
RawNet::Step RawNet::step_of(const PrimitiveDesc& pd, Arguments arguments) {
  return {dnnl::primitive(pd.get()), std::move(arguments), pd.scratchpad_desc(), {}};
}

template <class PrimitiveDesc>
void RawNet::add_weight_gradient(const PrimitiveDesc& pd, const Memory& x, const Memory& dy,
                                 Parameter& w, const Parameter* bias) {
  const Memory dw = zeros(pd.diff_weights_desc());
  Arguments arguments{{DNNL_ARG_SRC, in_layout(x, pd.src_desc())},
                      {DNNL_ARG_DIFF_DST, in_layout(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_DIFF_WEIGHTS, dw}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_DIFF_BIAS, bias->gradient);
  add_step(step_of(pd, std::move(arguments)));
  store_gradient(w, dw);
}

template <class PrimitiveDesc>
RawNet::Memory RawNet::add_data_gradient(const PrimitiveDesc& pd, const Memory& dy,
                                         const Parameter& w) {
  const Memory dx = zeros(pd.diff_src_desc());
  add_step(step_of(pd, {{DNNL_ARG_DIFF_DST, in_layout(dy, pd.diff_dst_desc())},
                        {DNNL_ARG_WEIGHTS, in_layout(w.value, pd.weights_desc())},
                        {DNNL_ARG_DIFF_SRC, dx}}));
  return dx;
}

}  // namespace heddle::bench
