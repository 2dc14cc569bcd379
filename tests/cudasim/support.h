#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "heddle/tests/support/catch.h"

namespace heddle::test {

/// Device memory with the values of a vector, and back.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count, T value = T()) : DeviceArray(std::vector<T>(count, value)) {}
  explicit DeviceArray(const std::vector<T>& values) : count_(values.size()) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count_ * sizeof(T)) == cudaSuccess);
    data_ = static_cast<T*>(memory);
    REQUIRE(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    REQUIRE(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return result;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

struct Config {
  dim3 grid = 1;
  dim3 block = 1;
  size_t shared_bytes = 0;
};

/// Launches and waits; returns the first error.
template <class... Parameters, class... Arguments>
cudaError_t try_run(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  cudaLaunchConfig_t launch{};
  launch.gridDim = config.grid;
  launch.blockDim = config.block;
  launch.dynamicSmemBytes = config.shared_bytes;
  const cudaError_t error =
      cudaLaunchKernelEx(&launch, kernel, std::forward<Arguments>(arguments)...);
  return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  REQUIRE(try_run(kernel, config, std::forward<Arguments>(arguments)...) == cudaSuccess);
}

}  // namespace heddle::test
