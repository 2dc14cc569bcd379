#pragma once

#include <memory>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/kernels/dispatch.h"

/// Adds the side "native" to `prepared`: heddle's own kernel of `op` on the setting's device.
#define HEDDLE_ADD_NATIVE(prepared, setting, op, args)                                 \
  (prepared).sides.push_back({"native", [device = (setting).device, values = (args)] { \
                                HEDDLE_DISPATCH(device, op, values);                   \
                              }})

/// The same, and "vendor" where heddle has a version of the op by a vendor's library that can.
#define HEDDLE_ADD_SIDES(prepared, setting, op, args)                               \
  do {                                                                              \
    HEDDLE_ADD_NATIVE(prepared, setting, op, args);                                 \
    if ((setting).beside_onednn())                                                  \
      ::heddle::bench::add_vendor(prepared, args, HEDDLE_CPU_CANDIDATES(args, op)); \
  } while (false)

namespace heddle::bench {

template <class Args>
void add_vendor(Prepared& prepared, const Args& args, const Candidates<Args>& candidates) {
  if (candidates.vendor != nullptr && candidates.vendor_supports(args))
    prepared.sides.push_back({"vendor", [=] { candidates.vendor(args); }});
}

}  // namespace heddle::bench
