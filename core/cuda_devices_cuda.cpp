#include "heddle/core/cuda_devices.h"

#include "heddle/core/cuda_check.h"

namespace heddle::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) return "no NVIDIA driver is installed";
    return fmt::format("the NVIDIA driver is for CUDA {}, this heddle needs one for {} or later",
                       version_text(driver), version_text(runtime));
  }
  if (status != cudaSuccess && status != cudaErrorNoDevice)
    return fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
  return "this machine has no CUDA device, or CUDA_VISIBLE_DEVICES hides it";
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();  // no driver, no device: not an error of whoever calls next
  return 0;
}

std::string why_missing(Device device) {
  const int count = device_count();
  if (device.index >= 0 && device.index < count) return {};
  if (count == 0) return why_no_device();
  return fmt::format("this machine has {} CUDA device{}, the last is cuda:{}", count,
                     count == 1 ? "" : "s", count - 1);
}

std::string description(Device device) {
  cudaDeviceProp properties{};
  HEDDLE_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return fmt::format("{}, compute capability {}.{}, {} MiB", properties.name, properties.major,
                     properties.minor, properties.totalGlobalMem >> 20);
}

}  // namespace heddle::cuda
