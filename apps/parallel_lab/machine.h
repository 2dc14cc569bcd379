#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/device.h"
#include "heddle/parallel/links.h"

/// What the laboratory asks of the machine itself, most of which only virtual devices (cudasim's)
/// can do.
namespace heddle::lab {

/// Waits until the device has done all of this process's work, or that of the thread's stream.
/// Nothing for the CPU.
void wait_for(Device device);
void wait_for_stream(Device device);

/// Whether CUDA devices here are virtual ones.
bool devices_are_virtual();

/// Builds as many virtual devices, where there are fewer. Does nothing else. Call it before any
/// device is used.
void provide_devices(int n_devices);

/// Shuts the pairs without peer access in `links` off from each other, and opens the others.
/// Virtual devices alone.
void set_peer_access(const std::vector<Device>& devices, const Links& links);

/// Whether copies and kernels run as late as their order allows. Virtual devices alone.
void run_late(bool late);

/// Bytes that copies have carried since clear_counted_bytes(), as the virtual machine counted them:
/// (from, to), the host last. Empty on other machines.
std::vector<std::vector<int64_t>> counted_bytes(const std::vector<Device>& devices);
void clear_counted_bytes();

}  // namespace heddle::lab
