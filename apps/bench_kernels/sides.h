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

/// Both of HEDDLE_ADD_SIDES and HEDDLE_ADD_CUDA_VENDOR.
#define HEDDLE_ADD_ALL_SIDES(prepared, setting, op, args, library) \
  do {                                                             \
    HEDDLE_ADD_SIDES(prepared, setting, op, args);                 \
    HEDDLE_ADD_CUDA_VENDOR(prepared, setting, op, args, library);  \
  } while (false)

/// Adds "vendor" on a CUDA device where this build's `library` (cublas, cudnn) can: in the same
/// mathematical mode as ours, see kernels/vendor. Not under cudasim, which would count its
/// stand-in.
#ifdef HEDDLE_WITH_CUDA
#define HEDDLE_ADD_CUDA_VENDOR(prepared, setting, op, args, library)                              \
  ::heddle::bench::add_cuda_vendor(prepared, (setting).device, args,                              \
                                   ::heddle::CudaCandidates<std::remove_cvref_t<decltype(args)>>{ \
                                       &::heddle::cuda::op HEDDLE_CANDIDATE_##library(op)})
#else
#define HEDDLE_ADD_CUDA_VENDOR(prepared, setting, op, args, library) static_cast<void>(0)
#endif

namespace heddle::bench {

template <class Args>
void add_vendor(Prepared& prepared, const Args& args, const Candidates<Args>& candidates) {
  if (candidates.vendor != nullptr && candidates.vendor_supports(args))
    prepared.sides.push_back({"vendor", [=] { candidates.vendor(args); }});
}

#ifdef HEDDLE_WITH_CUDA
template <class Args>
void add_cuda_vendor(Prepared& prepared, Device device, const Args& args,
                     const CudaCandidates<Args>& candidates) {
  if (device.type != DeviceType::kCuda || candidates.vendor == nullptr ||
      !detail::cuda_times_candidates())
    return;
  const DeviceGuard guard(device);
  if (!candidates.vendor_supports(args, current_stream(device))) return;
  prepared.sides.push_back({"vendor", [=] {
                              const DeviceGuard inner(device);
                              candidates.vendor(args, current_stream(device));
                            }});
}
#endif

}  // namespace heddle::bench
