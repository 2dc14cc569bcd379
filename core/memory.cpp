#include "heddle/core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "heddle/core/cuda_memory.h"
#include "heddle/core/flavour.h"
#include "heddle/core/memory_guards.h"
#include "heddle/core/memory_label.h"

#if defined(__SANITIZE_ADDRESS__)
#define HEDDLE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_ASAN 1
#endif
#endif
#ifdef HEDDLE_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#endif

namespace heddle {

std::string detail::bytes_text(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / 1048576.0;
  return bytes < 1048576 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} MiB", mebibytes);
}

std::string detail::label_text() {
  const std::string_view label = MemoryLabel::current();
  return label.empty() ? "" : fmt::format(" for {}", label);
}

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{1} << 21;
// Large blocks all begin at a huge page. Offset by a cache line more each time, so that kernels
// that walk several tensors at once do not meet in the same sets of the cache.
constexpr int64_t kColours = 32;

struct Block {
  void* base;     // what the system gave
  int64_t bytes;  // usable from the data pointer on
};

/// Freed blocks are kept by size; a request takes the smallest that fits, if it wastes at most an
/// eighth of itself. Under AddressSanitizer what is not handed out is poisoned, so that keeping
/// blocks hides no use after free.
class Arena {
 public:
  void* allocate(int64_t asked) {
    const int64_t bytes = (std::max<int64_t>(asked, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(mutex_);
    auto found = free_.lower_bound(bytes);
    if (found != free_.end() && found->first > bytes + bytes / 8 + 4 * kAlignment)
      found = free_.end();
    void* data = nullptr;
    if (found != free_.end()) {
      data = found->second;
      free_.erase(found);
    } else {
      data = from_system(bytes);
    }
    stats_.in_use += blocks_.at(data).bytes;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
    ASAN_UNPOISON_MEMORY_REGION(data, static_cast<size_t>(asked));
    return data;
  }

  void release(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    stats_.in_use -= found->second.bytes;
    ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(found->second.bytes));
    try {
      free_.emplace(found->second.bytes, data);
    } catch (...) {  // no memory for the list's node: give the block back instead
      to_system(found);
    }
  }

  void release_cached() {
    const std::lock_guard lock(mutex_);
    release_cached_locked();
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak_in_use = stats_.in_use;
  }

 private:
  using Blocks = std::unordered_map<void*, Block>;

  void* from_system(int64_t bytes) {
    const bool large = bytes >= kHugePage;
    const int64_t colour = large ? kAlignment * (++large_blocks_ % kColours) : 0;
    const int64_t alignment = large ? kHugePage : kAlignment;
    int64_t total = 0;
    if (__builtin_add_overflow(bytes, colour + alignment, &total))
      throw OutOfMemory(fmt::format("memory: {} bytes asked, more than any machine has", bytes));
    total = total / alignment * alignment;
    void* base = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(total));
    if (base == nullptr) {
      release_cached_locked();
      base = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(total));
    }
    if (base == nullptr)
      throw OutOfMemory(
          fmt::format("memory: the system has no {} left{}: {} in use, {} at the highest",
                      detail::bytes_text(bytes), detail::label_text(),
                      detail::bytes_text(stats_.in_use), detail::bytes_text(stats_.peak_in_use)));
    if (large) (void)madvise(base, static_cast<size_t>(total), MADV_HUGEPAGE);  // advice only
    void* data = static_cast<char*>(base) + colour;
    blocks_.emplace(data, Block{base, bytes});
    stats_.held += bytes;
    ++stats_.system_calls;
    ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
    return data;
  }

  void to_system(Blocks::iterator block) noexcept {
    ASAN_UNPOISON_MEMORY_REGION(block->first, static_cast<size_t>(block->second.bytes));
    stats_.held -= block->second.bytes;
    std::free(block->second.base);
    blocks_.erase(block);
  }

  void release_cached_locked() {
    for (const auto& [bytes, data] : free_) to_system(blocks_.find(data));
    free_.clear();
  }

  std::mutex mutex_;
  Blocks blocks_;
  std::multimap<int64_t, void*> free_;
  MemoryStats stats_;
  int64_t large_blocks_ = 0;
};

Arena& arena() {
  static Arena& cpu = *new Arena;  // never destroyed: static tensors may outlive any order of exit
  return cpu;
}

void* allocate_cpu(int64_t bytes) {
  if (!detail::guards_wanted()) return arena().allocate(bytes);
  return detail::add_guards(arena().allocate(bytes + 2 * detail::kGuardBytes), bytes);
}

}  // namespace

#ifndef HEDDLE_WITH_CUDA
// A build without CUDA refuses the device where it is named; nobody gets as far as this.
namespace {
[[noreturn]] void refuse(Device device) {
  fail("memory: {} is not a device of this build", device.to_string());
}
}  // namespace
StreamRef current_stream(Device device) {
  if (device.type != DeviceType::kCpu) refuse(device);
  return {};
}
void* cuda::allocate(int64_t, StreamRef stream) { refuse(stream.device()); }
void cuda::record_use(void*, Device device, StreamRef) { refuse(device); }
void cuda::record_pinned_use(void*, StreamRef stream) { refuse(stream.device()); }
void cuda::copy(void*, Device target_device, const void*, Device, int64_t, bool) {
  refuse(target_device);
}
void cuda::release(Device, void*) noexcept {}
MemoryStats cuda::memory_stats(Device device) { refuse(device); }
void cuda::reset_peak(Device device) { refuse(device); }
void cuda::release_cached(Device device) { refuse(device); }
std::shared_ptr<Storage> pinned_storage(int64_t bytes) {
  return std::make_shared<Storage>(Device::cpu(), bytes);
}
#endif

void* memory::allocate(Device device, int64_t bytes) {
  return allocate(bytes, current_stream(device));
}
void* memory::allocate(int64_t bytes, StreamRef stream) {
  HEDDLE_CHECK(bytes >= 0, "memory: {} bytes asked", bytes);
  const bool on_cpu = stream.device().type == DeviceType::kCpu;
  return on_cpu ? allocate_cpu(bytes) : cuda::allocate(bytes, stream);
}
void memory::record_use(void* data, Device device, StreamRef stream) {
  if (device.type != DeviceType::kCpu) return cuda::record_use(data, device, stream);
  if (stream.get() != nullptr) cuda::record_pinned_use(data, stream);
}
void memory::copy(void* target, Device target_device, const void* source, Device source_device,
                  int64_t bytes, bool wait) {
  if (bytes == 0) return;
  if (target_device.type != DeviceType::kCpu || source_device.type != DeviceType::kCpu)
    return cuda::copy(target, target_device, source, source_device, bytes, wait);
  std::memcpy(target, source, static_cast<size_t>(bytes));
}
void memory::release(Device device, void* data) noexcept {
  if (data == nullptr) return;
  if (device.type != DeviceType::kCpu) return cuda::release(device, data);
  arena().release(detail::remove_guards(data));
}
MemoryStats memory::stats(Device device) {
  return device.type == DeviceType::kCpu ? arena().stats() : cuda::memory_stats(device);
}
void memory::reset_peak(Device device) {
  device.type == DeviceType::kCpu ? arena().reset_peak() : cuda::reset_peak(device);
}
void memory::release_cached(Device device) {
  device.type == DeviceType::kCpu ? arena().release_cached() : cuda::release_cached(device);
}

Storage::Storage(Device device, int64_t bytes)
    : device_(device), data_(memory::allocate(device, bytes)), bytes_(bytes) {}

Storage::Storage(Device device, void* data, int64_t bytes, std::shared_ptr<void> owner)
    : device_(device), data_(data), bytes_(bytes), owner_(std::move(owner)) {
  HEDDLE_CHECK(owner_ != nullptr, "storage: memory that nothing owns");
}

void Storage::record_use(StreamRef stream) const { memory::record_use(data_, device_, stream); }

Storage::~Storage() {
  if (owner_ == nullptr) memory::release(device_, data_);
}

}  // namespace heddle
