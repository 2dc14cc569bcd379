#pragma once

#include <cstdint>

namespace heddle {

/// For tests. While one lives, the arena hands every block out full of 0xFF bytes (NaN in every
/// floating dtype), so that elements which nobody writes are seen, and with guard bytes before and
/// after the bytes that were asked for, so that writes past either end are: `damaged()` counts the
/// blocks whose guards had changed when they were given back.
class MemoryGuards {
 public:
  MemoryGuards();
  ~MemoryGuards();
  MemoryGuards(const MemoryGuards&) = delete;
  MemoryGuards& operator=(const MemoryGuards&) = delete;

  static int64_t damaged();
};

namespace detail {

inline constexpr int64_t kGuardBytes = 64;  // on each side; a multiple of the arena's alignment

bool guards_wanted();
/// Fills `block` of `bytes` + 2 * kGuardBytes and gives the place between the guards.
void* add_guards(void* block, int64_t bytes);
/// The block that `data` lies in: checked where it has guards, else `data` itself.
void* remove_guards(void* data) noexcept;

}  // namespace detail
}  // namespace heddle
