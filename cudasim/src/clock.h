#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cudasim {

/// A vector clock: of each timeline (a stream, or the host), how many of its operations have
/// happened before.
class Clock {
 public:
  uint64_t at(int timeline) const {
    const auto i = static_cast<size_t>(timeline);
    return i < ticks_.size() ? ticks_[i] : 0;
  }
  void set(int timeline, uint64_t tick) {
    const auto i = static_cast<size_t>(timeline);
    if (i >= ticks_.size()) ticks_.resize(i + 1);
    ticks_[i] = tick;
  }
  void join(const Clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }

 private:
  std::vector<uint64_t> ticks_;
};

/// The host: all its threads are one timeline, since how they wait for each other is not seen.
constexpr int kHostTimeline = 0;

}  // namespace cudasim
