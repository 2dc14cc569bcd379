#pragma once

#include "heddle/core/memory.h"
#include "heddle/core/memory_guards.h"

namespace heddle::cpu {

/// Scratch space of a kernel, 64-byte aligned, uninitialised. A little lies in the object itself;
/// more comes from the caching arena, where in a steady step it costs a look-up under a lock.
class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : data_(bytes <= kInside && !heddle::detail::guards_wanted()
                  ? inside_
                  : memory::allocate(Device::cpu(), bytes)) {}
  ~Scratch() {
    if (data_ != inside_) memory::release(Device::cpu(), data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  static constexpr int64_t kInside = 2048;
  alignas(64) mutable char inside_[kInside];
  void* data_;
};

}  // namespace heddle::cpu
