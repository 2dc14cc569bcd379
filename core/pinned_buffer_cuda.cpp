#include "heddle/core/pinned_buffer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "heddle/core/cuda_check.h"
#include "heddle/core/cuda_devices.h"
#include "heddle/core/cuda_memory.h"
#include "heddle/core/event.h"

namespace heddle {
namespace {

constexpr int64_t kSmallest = 4096;  // the system hands out pages

/// Blocks by size, a power of two. Never destroyed: at the end of the program the driver may be
/// gone before the last buffer is, and takes the memory with it.
class PinnedPool {
 public:
  void* allocate(int64_t bytes) {
    const int64_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    std::vector<Free>& blocks = free_[size];
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      if (!std::all_of(block->uses.begin(), block->uses.end(),
                       [](const Event& event) { return event.is_done(); }))
        continue;
      void* data = block->data;
      blocks.erase(block);
#ifdef __CUDASIM__
      cudasim::host_access(data, static_cast<size_t>(size), true);  // whoever gets it will fill it
#endif
      used_.emplace(data, Used{size, {}});
      return data;
    }
    void* data = nullptr;
    HEDDLE_CUDA_CHECK(cudaHostAlloc(&data, static_cast<size_t>(size), cudaHostAllocPortable));
    used_.emplace(data, Used{size, {}});
    return data;
  }

  void record_use(void* data, StreamRef stream) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end()) return;
    Event event(stream.device());
    event.record(stream);
    found->second.uses.push_back(std::move(event));
  }

  void release(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end()) return;
    free_[found->second.size].push_back({data, std::move(found->second.uses)});
    used_.erase(found);
  }

 private:
  struct Used {
    int64_t size;
    std::vector<Event> uses;  // grows until the block is freed: a copy a step, for a step
  };
  struct Free {
    void* data;
    std::vector<Event> uses;
  };

  static int64_t rounded(int64_t bytes) {
    int64_t size = kSmallest;
    while (size < bytes) size *= 2;
    return size;
  }

  std::mutex mutex_;
  std::unordered_map<void*, Used> used_;
  std::map<int64_t, std::vector<Free>> free_;
};

PinnedPool& pool() {
  static PinnedPool& instance = *new PinnedPool;
  return instance;
}

}  // namespace

PinnedBuffer::PinnedBuffer(int64_t bytes) : bytes_(bytes) {
  HEDDLE_CHECK(bytes >= 0 && bytes <= INT64_MAX / 4, "pinned memory: {} bytes asked", bytes);
  data_ = pool().allocate(bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) pool().release(data_);
}

void PinnedBuffer::record_use(StreamRef stream) const { pool().record_use(data_, stream); }

std::shared_ptr<Storage> pinned_storage(int64_t bytes) {
  if (cuda::device_count() == 0) return std::make_shared<Storage>(Device::cpu(), bytes);
  auto buffer = std::make_shared<PinnedBuffer>(bytes);
  void* data = buffer->data();
  return std::make_shared<Storage>(Device::cpu(), data, bytes, std::move(buffer));
}

void cuda::record_pinned_use(void* data, StreamRef stream) { pool().record_use(data, stream); }

}  // namespace heddle
