#include <cuda_runtime.h>

#include "heddle/apps/parallel_lab/machine.h"
#include "heddle/core/stream.h"
#ifdef __CUDASIM__
#include <cudasim/control.h>
#include <cudasim/traffic.h>
#endif

namespace heddle::lab {

void wait_for(Device device) { synchronize(device); }

void wait_for_stream(Device device) {
  const StreamRef stream = current_stream(device);
  if (stream.get() != nullptr) stream.synchronize();
}

#ifdef __CUDASIM__
bool devices_are_virtual() { return true; }

void provide_devices(int n_devices) {
  cudasim::Machine machine = cudasim::machine();
  if (machine.n_devices >= n_devices) return;
  machine.n_devices = n_devices;
  cudasim::reset(machine);
}

void set_peer_access(const std::vector<Device>& devices, const Links& links) {
  // A device's memory is opened to those that may reach it when it is first used.
  for (const Device device : devices) (void)current_stream(device);
  for (size_t a = 0; a < devices.size(); ++a)
    for (size_t b = 0; b < devices.size(); ++b)
      if (a != b)
        cudasim::set_peer_access(devices[a].index, devices[b].index,
                                 links.at(static_cast<int>(a), static_cast<int>(b)).peer_access);
}

void run_late(bool late) {
  const cudasim::Machine machine = cudasim::machine();
  cudasim::set_schedule(late ? cudasim::Schedule::kLatest : machine.schedule, machine.seed);
}

std::vector<std::vector<int64_t>> counted_bytes(const std::vector<Device>& devices) {
  std::vector<int> places;
  for (const Device device : devices) places.push_back(device.index);
  places.push_back(cudasim::kHost);
  std::vector<std::vector<int64_t>> bytes;
  for (const int from : places) {
    std::vector<int64_t>& row = bytes.emplace_back();
    for (const int to : places) row.push_back(cudasim::copied_bytes(from, to));
  }
  return bytes;
}

void clear_counted_bytes() { cudasim::clear_copied_bytes(); }
#else
bool devices_are_virtual() { return false; }
void provide_devices(int) {}
void set_peer_access(const std::vector<Device>&, const Links&) {}
void run_late(bool) {}
std::vector<std::vector<int64_t>> counted_bytes(const std::vector<Device>&) { return {}; }
void clear_counted_bytes() {}
#endif

}  // namespace heddle::lab
