#pragma once

#include <cstdint>
#include <memory>

#include "heddle/core/device.h"
#include "heddle/core/stream.h"

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
  /// Freeing it waits for all that `stream` has queued by then: for work on another stream than the
  /// one that was current when this was made. On the CPU: of a PinnedBuffer.
  void record_use(StreamRef stream) const;

 private:
  Device device_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t version_ = 0;
  std::shared_ptr<void> owner_;
};

/// Host memory that devices copy from and to by themselves (core/pinned_buffer.h), where this build
/// has CUDA and this machine a device; elsewhere memory of the arena.
std::shared_ptr<Storage> pinned_storage(int64_t bytes);

/// What the arena of a device holds. Units: bytes.
struct MemoryStats {
  int64_t in_use = 0;        ///< handed out now
  int64_t peak_in_use = 0;   ///< the highest of in_use since the last reset_peak()
  int64_t held = 0;          ///< taken from the system: in use, or kept for the next request
  int64_t system_calls = 0;  ///< blocks ever taken from the system; constant in a steady step
};

/// The caching arena of a device: blocks that are freed are kept and handed out again, so that a
/// steady training step neither calls the system nor takes a page fault. Alignment 64 bytes. On a
/// CUDA device, memory comes from a pool of our own in the order of the current stream: what is
/// freed is free for the work that this stream is given next.
/// Errors: Error naming asked, in-use and held bytes where the system has no more.
namespace memory {

void* allocate(Device device, int64_t bytes);     ///< On the current stream.
void* allocate(int64_t bytes, StreamRef stream);  ///< Of the stream's device.
void release(Device device, void* data) noexcept;
void record_use(void* data, Device device, StreamRef stream);  ///< As Storage::record_use.
/// Copies in the order of the current streams of both devices. Host memory is read, or written,
/// when it returns, unless it is pinned and `wait` is false: then when the stream has got there.
void copy(void* target, Device target_device, const void* source, Device source_device,
          int64_t bytes, bool wait = true);
MemoryStats stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);  ///< Gives the blocks that are not in use back to the system.

}  // namespace memory
}  // namespace heddle
