#include <algorithm>

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "happens_before.h"
#include "stream.h"

namespace cudasim {
namespace {

/// The frame of calls that take an event.
template <class Body>
cudaError_t with_event(cudaEvent_t event, Body&& body) {
  return api([&](Lock& lock) {
    return runtime().handles.contains(event) ? body(lock, *event) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t record(Lock& lock, CUevent_st& event, CUstream_st& stream) {
  if (stream.device != event.device) return cudaErrorInvalidResourceHandle;
  if (stream.capture != nullptr) return capture_record(stream, event);
  if (const cudaError_t error = check_legacy_use(stream)) return error;
  event.capture_id = 0;
  event.recorded = enqueue(lock, stream, {.kind = "event"});
  return cudaSuccess;
}

}  // namespace
}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return cudasim::api([&](Lock&) {
    if (event == nullptr || (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      return cudaErrorInvalidValue;
    }
    *event = new CUevent_st;  // kept when destroyed, so that no handle means two events
    cudasim::keep_alive(*event);
    (*event)->device = cudasim::current_device;
    (*event)->flags = flags;
    runtime().handles.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cudasim::with_event(event, [](Lock&, CUevent_st& state) {
    runtime().handles.erase(&state);
    state.recorded = nullptr;  // what waits for it still does
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return cudasim::with_event(event, [&](Lock& lock, CUevent_st& state) {
    CUstream_st* stream = cudasim::find_stream(runtime(), handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : cudasim::record(lock, state, *stream);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudasim::with_event(event, [](Lock& lock, CUevent_st& state) {
    if (state.capture_id != 0) return cudaErrorCapturedEvent;
    if (const cudaError_t error = cudasim::check_unsafe_call()) return error;
    const cudasim::OperationPtr recorded = state.recorded;
    if (recorded == nullptr) return cudaSuccess;
    if (!runtime().scheduler.query(lock, recorded)) return cudaErrorNotReady;
    cudasim::host_waited_for(recorded->clock);
    return runtime().devices[static_cast<size_t>(state.device)].sticky.load();
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return cudasim::with_event(event, [](Lock& lock, CUevent_st& state) {
    if (state.capture_id != 0) return cudaErrorCapturedEvent;
    const cudasim::OperationPtr recorded = state.recorded;
    cudasim::wait_for(lock, {&recorded, 1});
    return runtime().devices[static_cast<size_t>(state.device)].sticky.load();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudasim::with_event(start, [&](Lock& lock, CUevent_st& from) {
    if (!runtime().handles.contains(end)) return cudaErrorInvalidResourceHandle;
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (from.capture_id != 0 || end->capture_id != 0) return cudaErrorCapturedEvent;
    for (const CUevent_st* event : {&from, end}) {
      const bool timed = (event->flags & cudaEventDisableTiming) == 0;
      if (!timed || event->recorded == nullptr || event->device != from.device) {
        return cudaErrorInvalidResourceHandle;
      }
      if (!runtime().scheduler.query(lock, event->recorded)) return cudaErrorNotReady;
    }
    const auto passed = end->recorded->done_at - from.recorded->done_at;
    *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
    return cudaSuccess;
  });
}
