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

}  // namespace heddle::bench
