#pragma once

#include <vector>

#include "heddle/core/device.h"

namespace heddle {

/// How one device reaches another.
struct Link {
  bool peer_access = true;         ///< Directly; else copies go through pinned host memory.
  double bytes_per_second = 20e9;  ///< Of one copy.
  double latency = 10e-6;          ///< Units: seconds, from a copy's start to its first byte.
};

/// The links between the devices of one group, by their places in it.
class Links {
 public:
  /// All alike.
  explicit Links(int n_devices, Link link = {});
  /// Which pairs of these devices have peer access. No speeds: those of Link. Logical replicas on
  /// the CPU always have it.
  static Links of(const std::vector<Device>& devices);
  /// The same with each pair's speed, measured once by copies of two sizes between events. On the
  /// CPU and under cudasim, where time means nothing, speeds are those of Link.
  static Links measure(const std::vector<Device>& devices);

  int size() const { return n_devices_; }
  Link& at(int from, int to);
  const Link& at(int from, int to) const;

 private:
  int n_devices_;
  std::vector<Link> links_;  // (from, to)
};

}  // namespace heddle
