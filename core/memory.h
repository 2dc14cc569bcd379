#pragma once

#include <cstdint>
#include <memory>

#include "heddle/core/device.h"

namespace heddle {

/// A block of memory that tensors share, with the count of in-place writes to it that the tape
/// checks saved tensors against. Freed to the arena with the last reference.
class Storage {
 public:
  Storage(Device device, int64_t bytes);
  /// Memory that something else owns (a mapped file); `owner` is held as long as this lives.
  Storage(Device device, void* data, int64_t bytes, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  int64_t version() const { return version_; }
  void bump_version() { ++version_; }

 private:
  Device device_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t version_ = 0;
  std::shared_ptr<void> owner_;
};

/// What the arena of a device holds. Units: bytes.
struct MemoryStats {
  int64_t in_use = 0;        ///< handed out now
  int64_t peak_in_use = 0;   ///< the highest of in_use since the last reset_peak_memory()
  int64_t held = 0;          ///< taken from the system: in use, or kept for the next request
  int64_t system_calls = 0;  ///< blocks ever taken from the system; constant in a steady step
};

/// The caching arena of a device: blocks that are freed are kept and handed out again, so that a
/// steady training step neither calls the system nor takes a page fault. Alignment 64 bytes. On a
/// CUDA device, memory comes from a pool of our own in the order of the current stream: what is
/// freed is free for the work that this stream is given next.
/// Errors: Error naming asked, in-use and held bytes where the system has no more.
namespace memory {

void* allocate(Device device, int64_t bytes);
void release(Device device, void* data) noexcept;
MemoryStats stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);  ///< Gives the blocks that are not in use back to the system.

}  // namespace memory
}  // namespace heddle
