#pragma once

#include <cstdint>
#include <utility>

#include "heddle/core/stream.h"

namespace heddle {

/// Host memory that devices copy from and to by themselves, so that copies run beside the host's
/// work. Getting it from the system is slow and stops devices: blocks are kept and handed out
/// again, once the streams that record_use() named have passed the point of that call. In builds
/// with CUDA alone. Errors: CudaError where there is no memory left.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(int64_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }
  /// The memory is not handed out again before `stream` has done what is queued there by now.
  void record_use(StreamRef stream) const;

 private:
  void swap(PinnedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace heddle
