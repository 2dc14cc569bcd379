#include "heddle/core/device_guard.h"

#include "heddle/core/cuda_check.h"

namespace heddle {

DeviceGuard::DeviceGuard(Device device) {
  if (device.type != DeviceType::kCuda) return;
  int current = 0;
  HEDDLE_CUDA_CHECK(cudaGetDevice(&current));
  if (current == device.index) return;
  try {
    HEDDLE_CUDA_CHECK(cudaSetDevice(device.index));
  } catch (...) {  // a device that has failed says so, but is the current one
    (void)cudaSetDevice(current);
    throw;
  }
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) HEDDLE_CUDA_WARN(cudaSetDevice(previous_));
}

}  // namespace heddle
