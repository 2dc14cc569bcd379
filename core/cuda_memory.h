#pragma once

#include "heddle/core/memory.h"

/// The CUDA side of core/memory.h. For core/ alone.
namespace heddle::cuda {

void* allocate(Device device, int64_t bytes);
void release(Device device, void* data) noexcept;
MemoryStats memory_stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);

}  // namespace heddle::cuda
