#include "heddle/core/event.h"

#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/stream.h"

namespace heddle {

void detail::destroy_event(CUevent_st* event) noexcept {
  HEDDLE_CUDA_WARN(cudaEventDestroy(event));
}

CUevent_st* detail::make_event(Device device, bool timed) {
  HEDDLE_CHECK(device.type == DeviceType::kCuda, "event: {} has no events", device.to_string());
  const DeviceGuard guard(device);
  cudaEvent_t event = nullptr;
  HEDDLE_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

void detail::record_event(CUevent_st* event, StreamRef stream) {
  const DeviceGuard guard(stream.device());
  HEDDLE_CUDA_CHECK(cudaEventRecord(event, stream.get()));
}

void EventRef::synchronize() const { HEDDLE_CUDA_CHECK(cudaEventSynchronize(handle_)); }

bool EventRef::is_done() const {
  const cudaError_t status = cudaEventQuery(handle_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  HEDDLE_CUDA_CHECK(status);
  return true;
}

void Event::record(StreamRef stream) { detail::record_event(handle_.get(), stream); }

void TimedEvent::record(StreamRef stream) { detail::record_event(handle_.get(), stream); }

std::chrono::duration<double> TimedEvent::since(const TimedEvent& begin) const {
  synchronize();
  float milliseconds = 0.0F;
  HEDDLE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.handle_.get(), handle_.get()));
  return std::chrono::duration<double, std::milli>(milliseconds);
}

}  // namespace heddle
