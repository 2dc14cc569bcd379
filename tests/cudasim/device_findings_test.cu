// Whose memory a kernel may touch: its device's, pinned memory, and what a peer has opened.
#include "heddle/tests/cudasim/faults.h"

namespace heddle::test {
namespace {

__global__ void add_one_kernel(int* x) {
  x[threadIdx.x] += 1;  // line: someone's memory
}

/// Two devices, without peer access unless it is enabled; the first is current.
class TwoDevices {
 public:
  TwoDevices() {
    cudasim::reset({.n_devices = 2});
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  ~TwoDevices() { cudasim::reset({}); }
};

int* allocate_on(int device) {
  void* memory = nullptr;
  REQUIRE(cudaSetDevice(device) == cudaSuccess);
  REQUIRE(cudaMalloc(&memory, 32 * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMemset(memory, 0, 32 * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  return static_cast<int*>(memory);
}

TEST_CASE("memory of another device is found, until peer access is enabled") {
  const TwoDevices devices;
  int* x = allocate_on(1);
  const Expected expected;
  SECTION("without") {
    REQUIRE(try_run(add_one_kernel, {.block = 32}, x) != cudaSuccess);
    const Finding finding = expected.only(FindingKind::kForeignDevice);
    REQUIRE(finding.device == 0);
    REQUIRE(finding.access.line == line_with("device_findings_test.cu", "someone's memory"));
    REQUIRE_THAT(finding.memory, ContainsSubstring("of device 1"));
  }
  SECTION("with") {
    REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    run(add_one_kernel, {.block = 32}, x);
    expected.none();
  }
}

TEST_CASE("a kernel on the memory's own device is silent") {
  const TwoDevices devices;
  int* x = allocate_on(1);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const Expected expected;
  run(add_one_kernel, {.block = 32}, x);
  expected.none();
}

TEST_CASE("pinned memory may be touched by kernels, host memory may not") {
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 32 * sizeof(int)) == cudaSuccess);
  auto* x = static_cast<int*>(pinned);
  for (int i = 0; i < 32; ++i) x[i] = i;
  const Expected expected;
  run(add_one_kernel, {.block = 32}, x);
  expected.none();
  REQUIRE(x[31] == 32);
  std::vector<int> host(32);
  run_failing(add_one_kernel, {.block = 32}, host.data());
  static_cast<void>(expected.only(FindingKind::kHostPointer));
}

TEST_CASE("memory freed in stream order is found once it is freed") {
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 32 * sizeof(int), nullptr) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 0, 32 * sizeof(int), nullptr) == cudaSuccess);
  const Expected expected;
  run(add_one_kernel, {.block = 32}, static_cast<int*>(memory));
  expected.none();
  REQUIRE(cudaFreeAsync(memory, nullptr) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  run_failing(add_one_kernel, {.block = 32}, static_cast<int*>(memory));
  static_cast<void>(expected.only(FindingKind::kUseAfterFree));
}

TEST_CASE("memory from a pool is new each time") {
  const Expected expected;
  for (int i = 0; i < 2; ++i) {
    void* memory = nullptr;
    REQUIRE(cudaMallocAsync(&memory, 32 * sizeof(int), nullptr) == cudaSuccess);
    run(add_one_kernel, {.block = 32}, static_cast<int*>(memory));
    REQUIRE(cudaFreeAsync(memory, nullptr) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  const Finding finding = expected.only(FindingKind::kUninitialisedRead);
  REQUIRE(finding.count == 64);
}

}  // namespace
}  // namespace heddle::test
