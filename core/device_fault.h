#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/device.h"

namespace heddle {

/// What a kernel found wrong with its input (a label that is no class) while the host was not
/// waiting for it. It lies in memory that host and device both reach. A kernel writes `values`,
/// then `found`, and leaves a fault alone that nobody has seen yet. What it computes from such
/// input is NaN, never a number that looks right.
struct DeviceFault {
  int64_t values[4] = {};
  int64_t found = 0;
};

/// The text of a fault's error.
using DescribeFault = std::string (*)(const DeviceFault& fault);

/// Where kernels on `device` report what `describe` puts into words; the same for each call, and
/// never freed.
DeviceFault* device_fault(Device device, DescribeFault describe);

/// Errors: a fault that was reported on `device`, which is forgotten. Waits for nothing: it sees
/// what kernels that have ended have found. Called when a tensor is read by the host (after waiting
/// for it) and when an op that may report is queued again.
void check_device_faults(Device device);

}  // namespace heddle
