#pragma once

#include <cudasim/control.h>

#include <vector>

#include "heddle/core/device.h"

namespace heddle {

enum class Peers { kAll, kNone, kOnePairMissing };

/// Puts schedule and peer access back as the program began.
class MachineScope {
 public:
  MachineScope(cudasim::Schedule schedule, uint64_t seed, Peers peers = Peers::kAll) {
    cudasim::set_schedule(schedule, seed);
    if (peers == Peers::kNone) set_all(false);
    if (peers == Peers::kOnePairMissing) set_pair(0, 1, false);
  }
  ~MachineScope() {
    const cudasim::Machine machine = cudasim::machine();
    cudasim::set_schedule(machine.schedule, machine.seed);
    set_all(true);
  }

 private:
  static void set_pair(int a, int b, bool possible) {
    cudasim::set_peer_access(a, b, possible);
    cudasim::set_peer_access(b, a, possible);
  }
  static void set_all(bool possible) {
    const int n = cudasim::machine().n_devices;
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b) set_pair(a, b, possible);
  }
};

inline std::vector<Device> devices_of(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.push_back({DeviceType::kCuda, i});
  return devices;
}

}  // namespace heddle
