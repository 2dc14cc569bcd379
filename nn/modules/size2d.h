#pragma once

#include <string>
#include <utility>

#include "heddle/core/error.h"

namespace heddle {

/// (rows, columns); one number means both.
struct Size2d : std::pair<int64_t, int64_t> {
  Size2d(int64_t both) : pair(both, both) {}
  Size2d(int64_t rows, int64_t columns) : pair(rows, columns) {}
  std::string to_string() const { return fmt::format("{}x{}", first, second); }
};

}  // namespace heddle
