#pragma once

#include <string>

#include "heddle/core/memory.h"

/// The CUDA side of core/memory.h, and what both sides say. For core/ alone.
namespace heddle::cuda {

void* allocate(int64_t bytes, StreamRef stream);
void record_use(void* data, Device device, StreamRef stream);
void record_pinned_use(void* data, StreamRef stream);  // nothing where `data` is no PinnedBuffer's
void copy(void* target, Device target_device, const void* source, Device source_device,
          int64_t bytes, bool wait);
void release(Device device, void* data) noexcept;
MemoryStats memory_stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);

}  // namespace heddle::cuda

namespace heddle::detail {

std::string bytes_text(int64_t bytes);  // "100 bytes", "1.5 MiB"
std::string label_text();               // " for conv1", where a MemoryLabel says so

}  // namespace heddle::detail
