#include "heddle/core/device_guard.h"

#include "heddle/core/cuda_check.h"

namespace heddle {

DeviceGuard::DeviceGuard(Device device) {
  if (device.type != DeviceType::kCuda) return;
  int current = 0;
  HEDDLE_CUDA_CHECK(cudaGetDevice(&current));
  if (current == device.index) return;
  HEDDLE_CUDA_CHECK(cudaSetDevice(device.index));
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) HEDDLE_CUDA_WARN(cudaSetDevice(previous_));
}

}  // namespace heddle
