#pragma once

#include "heddle/core/memory.h"

namespace heddle::cpu {

/// Scratch space of a kernel, from the caching arena: in a steady step it costs a look-up. 64-byte
/// aligned, uninitialised.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : data_(memory::allocate(Device::cpu(), bytes)) {}
  ~Scratch() { memory::release(Device::cpu(), data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
};

}  // namespace heddle::cpu
