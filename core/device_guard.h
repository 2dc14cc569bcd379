#pragma once

#include "heddle/core/device.h"

namespace heddle {

/// While it lives, this thread's CUDA calls go to `device`; puts the previous one back. Nothing for
/// the CPU. Nobody else changes the current device. In builds with CUDA alone.
class [[nodiscard]] DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;  // -1: nothing to put back
};

}  // namespace heddle
