#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

/// A run of neighbouring things.
struct Range {
  int64_t begin = 0;
  int64_t size = 0;

  int64_t end() const { return begin + size; }
  bool operator==(const Range&) const = default;
};

/// Cuts 0 .. n into `parts` runs whose sizes differ by one at most, the longer ones first: 9 on 4
/// is 3, 2, 2, 2. With n < parts the last runs are empty. Errors: parts < 1, or n < 0.
std::vector<Range> split_evenly(int64_t n, int64_t parts);

}  // namespace heddle
