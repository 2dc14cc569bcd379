#pragma once

#include <string_view>

namespace heddle {

/// While it lives, memory that this thread takes from a device is noted down as `label`'s, a
/// layer's name for example: what an out-of-memory error lists. The text must live as long.
class [[nodiscard]] MemoryLabel {
 public:
  explicit MemoryLabel(std::string_view label);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  static std::string_view current();  ///< Of this thread; empty without one.

 private:
  std::string_view previous_;
};

}  // namespace heddle
