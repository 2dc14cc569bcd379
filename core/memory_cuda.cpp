#include "heddle/core/capture_arena.h"
#include "heddle/core/context_cuda.h"
#include "heddle/core/cuda_memory.h"
#include "heddle/core/device_fault.h"
#include "heddle/core/device_guard.h"

namespace heddle {

void* cuda::allocate(int64_t bytes, StreamRef stream) {
  if (CaptureArena* arena = CaptureArena::current(stream.device())) {
    void* data = arena->allocate(bytes);
    if (data == nullptr) fail("memory: the graph's arena has no {} bytes left", bytes);
    return data;
  }
  return context(stream.device()).allocate(bytes, stream);
}
void cuda::release(Device device, void* data) noexcept {
  if (!CaptureArena::take_back(device, data)) context(device).release(data);
}
void cuda::record_use(void* data, Device device, StreamRef stream) {
  context(device).record_use(data, stream);
}
MemoryStats cuda::memory_stats(Device device) { return context(device).stats(); }
void cuda::reset_peak(Device device) { context(device).reset_peak(); }
void cuda::release_cached(Device device) { context(device).release_cached(); }

void cuda::copy(void* target, Device target_device, const void* source, Device source_device,
                int64_t bytes, bool wait) {
  const size_t n = static_cast<size_t>(bytes);
  const bool from_host = source_device.type == DeviceType::kCpu;
  const bool to_host = target_device.type == DeviceType::kCpu;
  const Device device = to_host ? source_device : target_device;
  const DeviceGuard guard(device);
  const StreamRef stream = current_stream(device);
  if (from_host || to_host) {
    HEDDLE_CUDA_CHECK(cudaMemcpyAsync(target, source, n,
                                      from_host ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                      stream.get()));
    if (wait) stream.synchronize();
    if (wait && to_host) check_device_faults(device);
  } else if (target_device == source_device) {
    HEDDLE_CUDA_CHECK(cudaMemcpyAsync(target, source, n, cudaMemcpyDeviceToDevice, stream.get()));
  } else {
    HEDDLE_CHECK(CaptureArena::current(target_device) == nullptr,
                 "memory: a copy from {} to {} cannot be captured into a graph",
                 source_device.to_string(), target_device.to_string());
    const StreamRef giving = current_stream(source_device);
    stream.wait(giving);
    HEDDLE_CUDA_CHECK(cudaMemcpyPeerAsync(target, target_device.index, source, source_device.index,
                                          n, stream.get()));
    giving.wait(stream);  // what comes next there may overwrite or free the source
  }
}

}  // namespace heddle
