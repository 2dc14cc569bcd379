#include "heddle/core/context_cuda.h"
#include "heddle/core/cuda_memory.h"

namespace heddle {

void* cuda::allocate(Device device, int64_t bytes) {
  return context(device).allocate(bytes, current_stream(device));
}
void cuda::release(Device device, void* data) noexcept { context(device).release(data); }
MemoryStats cuda::memory_stats(Device device) { return context(device).stats(); }
void cuda::reset_peak(Device device) { context(device).reset_peak(); }
void cuda::release_cached(Device device) { context(device).release_cached(); }

}  // namespace heddle
