// One device, one stream, everything at once.
#include <cstring>

#include "cudasim/runtime_api.h"
#include "launch.h"
#include "memory.h"

namespace {
cudaError_t last_error = cudaSuccess;

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
}  // namespace

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  auto* allocation = cudasim::place_allocation(0, bytes, cudasim::MemoryKind::kDevice, nullptr);
  if (allocation == nullptr) return note(cudaErrorMemoryAllocation);
  *pointer = allocation->base;
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const auto* allocation = cudasim::find_allocation(pointer);
  if (allocation == nullptr || allocation->freed) return note(cudaErrorInvalidValue);
  cudasim::release_allocation(const_cast<cudasim::Allocation&>(*allocation));
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudasim::launch_kernel(const cudaLaunchConfig_t& config, const void* function,
                                   KernelCall call) {
  Launch launch;
  launch.function = function;
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.shared_bytes = config.dynamicSmemBytes;
  launch.shared_limit = size_t{227} << 10;
  launch.kernel = std::move(call);
  launch.range = current_block_range();
  if (launch.block.x * launch.block.y * launch.block.z > 1024 || launch.grid.x == 0) {
    return note(cudaErrorInvalidConfiguration);
  }
  return note(execute(launch).failed ? cudaErrorLaunchFailure : cudaSuccess);
}
