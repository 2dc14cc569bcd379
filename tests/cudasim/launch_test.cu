#include <cudasim/execution.h>

#include <string>
#include <thread>

#include "heddle/tests/cudasim/machine.h"

using heddle::test::device_memory;
using heddle::test::MachineScope;
using heddle::test::new_stream;
using heddle::test::values_of;

namespace {

__global__ void count_kernel(int* count) {
  if (threadIdx.x == 0) ++*count;
}

cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes = 0) {
  static_cast<void>(cudaGetLastError());
  int* count = nullptr;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  const cudasim::BlockRangeScope none(0, 0);
  const cudaError_t error = cudaLaunchKernelEx(&config, count_kernel, count);
  REQUIRE(cudaGetLastError() == error);
  REQUIRE_CUDA(cudaGetLastError());
  return error;
}

}  // namespace

TEST_CASE("launches outside a device's limits are refused", "[sim]") {
  const MachineScope scope;
  REQUIRE_CUDA(launch(dim3(2147483647, 1, 1), 1));
  REQUIRE(launch(dim3(2147483648U, 1, 1), 1) == cudaErrorInvalidConfiguration);
  REQUIRE_CUDA(launch(dim3(1, 65535, 65535), 1));
  REQUIRE(launch(dim3(1, 65536, 1), 1) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(dim3(1, 1, 65536), 1) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(0, 1) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(1, 0) == cudaErrorInvalidConfiguration);
  REQUIRE_CUDA(launch(1, 1024));
  REQUIRE(launch(1, 1025) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(1, 2048) == cudaErrorInvalidConfiguration);
  REQUIRE_CUDA(launch(1, dim3(16, 1, 64)));
  REQUIRE(launch(1, dim3(8, 1, 65)) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(1, dim3(33, 32, 1)) == cudaErrorInvalidConfiguration);
}

TEST_CASE("shared memory above 48 KiB must be opted in, up to the card's limit", "[sim]") {
  const MachineScope scope({.card = "RTX 3060"});
  constexpr size_t kDefault = 48 << 10;
  constexpr int kMost = 99 << 10;
  REQUIRE_CUDA(launch(1, 32, kDefault));
  REQUIRE(launch(1, 32, kDefault + 1) == cudaErrorInvalidValue);
  constexpr auto kWhich = cudaFuncAttributeMaxDynamicSharedMemorySize;
  REQUIRE(cudaFuncSetAttribute(count_kernel, kWhich, kMost + 1) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaFuncSetAttribute(count_kernel, kWhich, kMost));
  REQUIRE_CUDA(launch(1, 32, kMost));
  REQUIRE(launch(1, 32, kMost + 1) == cudaErrorInvalidValue);
  cudaFuncAttributes attributes{};
  REQUIRE_CUDA(cudaFuncGetAttributes(&attributes, count_kernel));
  REQUIRE(attributes.maxDynamicSharedSizeBytes == kMost);
  REQUIRE(attributes.binaryVersion == 86);
}

TEST_CASE("opting in holds for one device", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  REQUIRE_CUDA(
      cudaFuncSetAttribute(count_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  REQUIRE_CUDA(launch(1, 32, 60000));
  REQUIRE_CUDA(cudaSetDevice(1));
  REQUIRE(launch(1, 32, 60000) == cudaErrorInvalidValue);
}

TEST_CASE("occupancy follows threads, blocks and shared memory", "[sim]") {
  const MachineScope scope;  // A100: 2048 threads, 32 blocks, 164 KiB
  const auto blocks = [](int threads, size_t shared_bytes) {
    int n_blocks = -1;
    REQUIRE_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_blocks, count_kernel, threads,
                                                               shared_bytes));
    return n_blocks;
  };
  REQUIRE(blocks(256, 0) == 8);
  REQUIRE(blocks(32, 0) == 32);
  REQUIRE(blocks(257, 0) == 7);
  REQUIRE(blocks(256, 40 << 10) == 4);
  REQUIRE(blocks(1025, 0) == 0);
}

TEST_CASE("the last error stays until it is taken, and belongs to its thread", "[sim]") {
  const MachineScope scope;
  REQUIRE(cudaSetDevice(5) == cudaErrorInvalidDevice);
  int device = 0;
  REQUIRE_CUDA(cudaGetDevice(&device));
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  std::thread other([] { REQUIRE_CUDA(cudaPeekAtLastError()); });
  other.join();
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
  REQUIRE_CUDA(cudaGetLastError());
}

TEST_CASE("a kernel's fault sticks to its device until it is reset", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  cudasim::set_sticky_error(0, cudaErrorIllegalAddress);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 8) == cudaErrorIllegalAddress);
  REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE_CUDA(cudaSetDevice(1));
  REQUIRE_CUDA(cudaMalloc(&memory, 8));
  REQUIRE(cudaSetDevice(0) == cudaErrorIllegalAddress);
  REQUIRE_CUDA(cudaDeviceReset());
  REQUIRE_CUDA(cudaMalloc(&memory, 8));
}

TEST_CASE("errors have CUDA's names and texts", "[sim]") {
  REQUIRE(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  REQUIRE(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  REQUIRE(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
  REQUIRE(std::string(cudaGetErrorString(static_cast<cudaError_t>(998))) ==
          "unrecognized error code");
}
