// The part of tracing that calls CUDA, and NVTX where the toolkit has it: Nsight Systems then shows
// the same spans. NVTX itself is headers alone: it loads a profiler's library where there is one.
#include "heddle/core/trace.h"

#include "heddle/core/cuda_check.h"
#include "heddle/core/device_span.h"
#include "heddle/core/profiler.h"

#if !defined(__CUDASIM__) && __has_include(<nvtx3/nvToolsExt.h>)
#define HEDDLE_WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>
#endif

namespace heddle {

bool detail::is_capturing(StreamRef stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  HEDDLE_CUDA_CHECK(cudaStreamIsCapturing(stream.get(), &status));
  return status != cudaStreamCaptureStatusNone;
}

#ifdef HEDDLE_WITH_NVTX
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t heddle = nvtxDomainCreateA("heddle");
  return heddle;
}

void push(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void pop() { nvtxDomainRangePop(domain()); }

void name_thread(const char* name) { nvtxNameOsThreadA(static_cast<uint32_t>(gettid()), name); }

}  // namespace

void detail::tell_profilers() { set_profiler_hooks({&push, &pop, &name_thread}); }
#else
void detail::tell_profilers() {}
#endif

}  // namespace heddle
