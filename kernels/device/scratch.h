#pragma once

#include "heddle/core/buffer.h"

namespace heddle {

/// Memory that a kernel needs between its launches, from the pool of the stream's device:
/// `const DeviceScratch scratch(bytes, stream); launch(..., scratch.as<float>())`. It ends with its
/// scope, before the kernels have run: the memory is given back in the order of the stream.
/// Uninitialised, at a multiple of 256 bytes; null where no bytes are asked for.
class DeviceScratch {
 public:
  DeviceScratch(int64_t bytes, StreamRef stream) : buffer_(bytes, stream) {}

  void* data() const { return bytes() == 0 ? nullptr : buffer_.data(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
};

}  // namespace heddle
