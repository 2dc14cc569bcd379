#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include <cudasim/control.h>
#include <cudasim/order.h>
#include "heddle/tests/support/catch.h"

namespace heddle::test {

/// A virtual machine for one test; the default one afterwards.
class MachineScope {
 public:
  explicit MachineScope(const cudasim::Machine& machine = {}) { cudasim::reset(machine); }
  ~MachineScope() { cudasim::reset(cudasim::Machine{}); }
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;
};

#define REQUIRE_CUDA(call) REQUIRE((call) == cudaSuccess)

template <class T>
T* device_memory(size_t count) {
  T* memory = nullptr;
  REQUIRE_CUDA(cudaMalloc(&memory, count * sizeof(T)));
  return memory;
}

template <class T>
T* pinned_memory(size_t count) {
  T* memory = nullptr;
  REQUIRE_CUDA(cudaMallocHost(&memory, count * sizeof(T)));
  return memory;
}

inline cudaStream_t new_stream(unsigned int flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t new_event(unsigned int flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  REQUIRE_CUDA(cudaEventCreateWithFlags(&event, flags));
  return event;
}

/// `after` waits for all that `before` has now.
inline void order(cudaStream_t before, cudaStream_t after) {
  int device = 0;
  int outer = 0;
  REQUIRE_CUDA(cudaGetDevice(&outer));
  REQUIRE_CUDA(cudaStreamGetDevice(before, &device));
  REQUIRE_CUDA(cudaSetDevice(device));
  cudaEvent_t event = new_event();
  REQUIRE_CUDA(cudaEventRecord(event, before));
  REQUIRE_CUDA(cudaSetDevice(outer));
  REQUIRE_CUDA(cudaStreamWaitEvent(after, event));
  REQUIRE_CUDA(cudaEventDestroy(event));
}

/// The values in device memory, read when all of the device is done.
template <class T>
std::vector<T> values_of(const T* memory, size_t count) {
  std::vector<T> values(count);
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE_CUDA(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

}  // namespace heddle::test
