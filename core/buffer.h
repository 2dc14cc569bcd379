#pragma once

#include <utility>

#include "heddle/core/event.h"
#include "heddle/core/memory.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Memory of a device without shape or type, allocated and freed in the order of `stream`: what is
/// queued there after the constructor may use it, and the destructor waits for nobody. Work of
/// another stream must begin after what this one has queued by now (StreamRef::wait), and
/// record_use() or wait_for() must come before the destructor. On the CPU: memory of the arena.
/// Errors: Error naming asked, in-use and held bytes where there is no memory left.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t bytes, StreamRef stream)
      : data_(memory::allocate(bytes, stream)), bytes_(bytes), stream_(stream) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { memory::release(stream_.device(), data_); }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }
  Device device() const { return stream_.device(); }
  StreamRef stream() const { return stream_; }

  /// Freeing it waits for all that `other` has queued by then.
  void record_use(StreamRef other) const { memory::record_use(data_, stream_.device(), other); }
  /// What the buffer's own stream queues from now on, freeing included, waits for `event`.
  void wait_for(EventRef event) const { stream_.wait(event); }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(stream_, other.stream_);
  }

  void* data_ = nullptr;
  int64_t bytes_ = 0;
  StreamRef stream_;
};

}  // namespace heddle
