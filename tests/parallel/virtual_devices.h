#pragma once

#include <cudasim/control.h>

#include <utility>
#include <vector>

#include "heddle/core/device.h"
#include "heddle/core/stream.h"

namespace heddle {

enum class Peers { kAll, kNone, kOnePairMissing };

/// Schedule and peer access while it lives; then those of the scope around it, or as the program
/// began.
class MachineScope {
 public:
  MachineScope(cudasim::Schedule schedule, uint64_t seed, Peers peers = Peers::kAll)
      : peers_(peers), outer_(std::exchange(innermost_, this)) {
    // A device's memory is opened to those that may reach it when it is first used.
    for (int i = 0; i < cudasim::machine().n_devices; ++i)
      (void)current_stream({DeviceType::kCuda, i});
    cudasim::set_schedule(schedule, seed);
    set_peers(peers);
  }
  ~MachineScope() {
    innermost_ = outer_;
    const cudasim::Machine machine = cudasim::machine();
    cudasim::set_schedule(machine.schedule, machine.seed);
    set_peers(outer_ != nullptr ? outer_->peers_ : Peers::kAll);
  }
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;

 private:
  static void set_pair(int a, int b, bool possible) {
    cudasim::set_peer_access(a, b, possible);
    cudasim::set_peer_access(b, a, possible);
  }
  static void set_peers(Peers peers) {
    const int n = cudasim::machine().n_devices;
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b) set_pair(a, b, peers != Peers::kNone);
    if (peers == Peers::kOnePairMissing) set_pair(0, 1, false);
  }

  static inline const MachineScope* innermost_ = nullptr;
  Peers peers_;
  const MachineScope* outer_;
};

inline std::vector<Device> devices_of(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.push_back({DeviceType::kCuda, i});
  return devices;
}

}  // namespace heddle
