#pragma once

#include "heddle/core/memory.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Scratch space of a kernel launch, from the device's pool: taken and given back in the order of
/// the device's current stream, which is the one that kernels are given. Uninitialised, at a
/// multiple of 256 bytes.
class DeviceScratch {
 public:
  DeviceScratch(int64_t bytes, StreamRef stream)
      : device_(stream.device()), data_(bytes > 0 ? memory::allocate(device_, bytes) : nullptr) {}
  ~DeviceScratch() {
    if (data_ != nullptr) memory::release(device_, data_);
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Device device_;
  void* data_;
};

}  // namespace heddle
