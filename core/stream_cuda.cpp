#include "heddle/core/stream.h"

#include <vector>

#include "heddle/core/context_cuda.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/event.h"

namespace heddle {
namespace {

/// What StreamGuards of this thread ask for, by device; no stream where none does.
thread_local std::vector<StreamRef> t_streams;

StreamRef& place_of(Device device) {
  const size_t index = static_cast<size_t>(device.index);
  if (t_streams.size() <= index) t_streams.resize(index + 1);
  return t_streams[index];
}

CUstream_st* make_stream(Device device) {
  (void)cuda::context(device);  // it outlives the stream
  const DeviceGuard guard(device);
  cudaStream_t stream = nullptr;
  HEDDLE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

void detail::destroy_stream(CUstream_st* stream) noexcept {
  cuda::leave_stream(stream);
  HEDDLE_CUDA_WARN(cudaStreamDestroy(stream));
}

StreamRef current_stream(Device device) {
  if (device.type == DeviceType::kCpu) return {};
  const StreamRef own = place_of(device);
  return own.get() != nullptr ? own : cuda::context(device).stream();
}

void synchronize(Device device) {
  if (device.type == DeviceType::kCpu) return;
  const DeviceGuard guard(device);
  HEDDLE_CUDA_CHECK(cudaDeviceSynchronize());
}

void StreamRef::wait(EventRef event) const {
  HEDDLE_CUDA_CHECK(cudaStreamWaitEvent(handle_, event.get(), 0));
}

void StreamRef::wait(StreamRef other) const {
  if (other == *this) return;
  Event point(other.device());
  point.record(other);
  wait(point);
}

void StreamRef::synchronize() const {
  if (handle_ != nullptr) HEDDLE_CUDA_CHECK(cudaStreamSynchronize(handle_));
}

bool StreamRef::is_idle() const {
  if (handle_ == nullptr) return true;
  const cudaError_t status = cudaStreamQuery(handle_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  HEDDLE_CUDA_CHECK(status);
  return true;
}

Stream::Stream(Device device) : device_(device), handle_(make_stream(device)) {}

void Stream::wait(EventRef event) const { ref().wait(event); }

StreamGuard::StreamGuard(StreamRef stream)
    : device_(stream.device()), previous_(place_of(device_)) {
  HEDDLE_CHECK(device_.type == DeviceType::kCuda && stream.get() != nullptr,
               "StreamGuard: no stream of a CUDA device was given");
  place_of(device_) = stream;
}

StreamGuard::~StreamGuard() { place_of(device_) = previous_; }

}  // namespace heddle
