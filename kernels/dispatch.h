#pragma once

#include <string>
#include <type_traits>

#include "heddle/core/device.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/device_span.h"
#include "heddle/core/flavour.h"
#include "heddle/core/stream.h"
#include "heddle/core/trace.h"
#include "heddle/kernels/provider.h"

/// Calls the version of `op` for the device: `HEDDLE_DISPATCH(x.device(), unary_forward, args)`, on
/// the current stream of a CUDA device. The call is a span of that name in traces. A build without
/// CUDA has the CPU's alone, so that no stub files exist; with it, an op that has neither a .cu
/// file nor HEDDLE_NO_CUDA_KERNEL does not link.
#define HEDDLE_DISPATCH(device, op, ...)                       \
  HEDDLE_BY_DEVICE(device, op, ::heddle::cpu::op(__VA_ARGS__), \
                   HEDDLE_CUDA_ARM(heddle_device, #op, ::heddle::cuda::op, __VA_ARGS__))

/// The same for an op that has a vendor version on the CPU (`onednn::op` and `onednn::op_supports`
/// beside `cpu::op` in the op's header): the provider setting chooses, see kernels/provider.h.
#define HEDDLE_DISPATCH_VENDOR(device, op, args)                                              \
  HEDDLE_BY_DEVICE(device, op, ::heddle::run_provider(args, HEDDLE_CPU_CANDIDATES(args, op)), \
                   HEDDLE_CUDA_ARM(heddle_device, #op, ::heddle::cuda::op, args))

/// The same for an op that has vendor versions on both: `library` names that of CUDA (cublas,
/// cudnn).
#define HEDDLE_DISPATCH_VENDORS(device, op, args, library)                                    \
  HEDDLE_BY_DEVICE(device, op, ::heddle::run_provider(args, HEDDLE_CPU_CANDIDATES(args, op)), \
                   HEDDLE_CUDA_VENDOR_ARM(heddle_device, op, args, library))

/// The same for an op whose vendor version is for CUDA alone.
#define HEDDLE_DISPATCH_CUDA_VENDOR(device, op, args, library) \
  HEDDLE_BY_DEVICE(device, op, ::heddle::cpu::op(args),        \
                   HEDDLE_CUDA_VENDOR_ARM(heddle_device, op, args, library))

// What they share: the arm of the device's kind, in a span.
#define HEDDLE_BY_DEVICE(device, op, cpu_arm, cuda_arm)     \
  do {                                                      \
    const ::heddle::Device heddle_device = (device);        \
    const ::heddle::TraceSpan heddle_span(#op);             \
    if (heddle_device.type == ::heddle::DeviceType::kCpu) { \
      cpu_arm;                                              \
    } else {                                                \
      cuda_arm;                                             \
    }                                                       \
  } while (false)

namespace heddle::cublas {
std::string library();  ///< "cuBLAS 13.1.0": the version that is linked.
}
namespace heddle::cudnn {
std::string library();
}

#ifdef HEDDLE_WITH_CUDA
#define HEDDLE_CUDA_ARM(device, name, op, ...)                                  \
  do {                                                                          \
    const ::heddle::DeviceGuard heddle_guard(device);                           \
    const ::heddle::StreamRef heddle_stream = ::heddle::current_stream(device); \
    const ::heddle::DeviceSpan heddle_device_span(name, "op", heddle_stream);   \
    op(__VA_ARGS__, heddle_stream);                                             \
  } while (false)
#define HEDDLE_CUDA_VENDOR_ARM(device, op, args, library)                                      \
  do {                                                                                         \
    const ::heddle::DeviceGuard heddle_guard(device);                                          \
    const ::heddle::StreamRef heddle_stream = ::heddle::current_stream(device);                \
    const ::heddle::DeviceSpan heddle_device_span(#op, "op", heddle_stream);                   \
    ::heddle::run_cuda_provider(args, heddle_stream,                                           \
                                ::heddle::CudaCandidates<std::remove_cvref_t<decltype(args)>>{ \
                                    &::heddle::cuda::op HEDDLE_CANDIDATE_##library(op)});      \
  } while (false)
#else
#define HEDDLE_CUDA_ARM(device, name, op, ...) ::heddle::detail::fail_without_cuda(name)
#define HEDDLE_CUDA_VENDOR_ARM(device, op, args, library) ::heddle::detail::fail_without_cuda(#op)
#endif

#ifdef HEDDLE_WITH_CUBLAS
#define HEDDLE_CANDIDATE_cublas(op)                          \
  , &::heddle::cublas::op,                                   \
      [](const auto& heddle_args, ::heddle::StreamRef) {     \
        return ::heddle::cublas::op##_supports(heddle_args); \
      },                                                     \
      &::heddle::cublas::library
#else
#define HEDDLE_CANDIDATE_cublas(op)
#endif

#ifdef HEDDLE_WITH_CUDNN
#define HEDDLE_CANDIDATE_cudnn(op) \
  , &::heddle::cudnn::op, &::heddle::cudnn::op##_supports, &::heddle::cudnn::library
#else
#define HEDDLE_CANDIDATE_cudnn(op)
#endif

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

[[noreturn]] inline void fail_without_cuda(const char* op) {
  fail("{}: heddle was built without CUDA", op);
}

}  // namespace heddle::detail
