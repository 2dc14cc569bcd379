#pragma once

#include "heddle/core/device.h"
#include "heddle/kernels/provider.h"

/// Calls the version of `op` for the device: `HEDDLE_DISPATCH(x.device(), unary_forward, args)`.
/// A build without CUDA has the CPU's alone, so that no stub files exist.
#define HEDDLE_DISPATCH(device, op, ...)      \
  do {                                        \
    ::heddle::detail::check_cpu(device, #op); \
    ::heddle::cpu::op(__VA_ARGS__);           \
  } while (false)

/// The same for an op that has a vendor version too (`onednn::op` and `onednn::op_supports` beside
/// `cpu::op` in the op's header): the provider setting chooses, see kernels/provider.h.
#define HEDDLE_DISPATCH_VENDOR(device, op, args)                   \
  do {                                                             \
    ::heddle::detail::check_cpu(device, #op);                      \
    ::heddle::run_provider(args, HEDDLE_CPU_CANDIDATES(args, op)); \
  } while (false)

#ifdef HEDDLE_WITH_ONEDNN
#define HEDDLE_CPU_CANDIDATES(args, op)                                         \
  ::heddle::Candidates<std::remove_cvref_t<decltype(args)>> {                   \
    &::heddle::cpu::op, &::heddle::onednn::op, &::heddle::onednn::op##_supports \
  }
#else
#define HEDDLE_CPU_CANDIDATES(args, op) \
  ::heddle::Candidates<std::remove_cvref_t<decltype(args)>> { &::heddle::cpu::op }
#endif

namespace heddle::detail {

inline void check_cpu(Device device, const char* op) {
  if (device.type != DeviceType::kCpu) fail("{}: heddle was built without CUDA", op);
}

}  // namespace heddle::detail
