#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "cudasim/control.h"
#include "device.h"
#include "scheduler.h"

namespace cudasim {

struct Capture;

/// What cudaFuncSetAttribute has set for a kernel on a device.
struct FunctionSettings {
  int max_dynamic_shared_bytes = static_cast<int>(kSharedBytesDefault);
  int carveout = -1;
};

/// All state of the virtual machine. Leaked: calls at exit still find it.
struct Runtime {
  std::mutex mutex;
  Machine machine;
  int n_devices = 0;
  std::array<Device, kMaxDevices> devices;
  Scheduler scheduler;
  std::unordered_set<const void*> handles;  ///< streams, events, graphs and pools that are alive
  std::unordered_set<Capture*> captures;
  std::array<std::unordered_map<const void*, FunctionSettings>, kMaxDevices> functions;
  std::unordered_set<const Allocation*> alive;
  int n_streams_made = 0;
  uint64_t n_launches = 0;

  const Device& current() const { return devices[static_cast<size_t>(current_device)]; }
  Device& current() { return devices[static_cast<size_t>(current_device)]; }
  bool valid_device(int device) const { return device >= 0 && device < n_devices; }
};

Runtime& runtime();

/// Keeps something reachable that is never destroyed.
void keep_alive(const void* object);

/// Makes the devices of `machine`, with nothing allocated. The first time and at reset().
void build_devices(Runtime& state, const Machine& machine);

}  // namespace cudasim
