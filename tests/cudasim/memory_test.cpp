#include <cstring>

#include "heddle/tests/cudasim/machine.h"

using heddle::test::device_memory;
using heddle::test::MachineScope;
using heddle::test::new_stream;
using heddle::test::pinned_memory;
using heddle::test::values_of;

namespace {

cudaMemPool_t new_pool(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  REQUIRE_CUDA(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  REQUIRE_CUDA(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

constexpr size_t kMiB = size_t{1} << 20;

}  // namespace

TEST_CASE("values go to a device and back", "[sim]") {
  const MachineScope machine;
  int* memory = device_memory<int>(4);
  const std::vector<int> sent = {1, 2, 3, 4};
  REQUIRE_CUDA(cudaMemcpy(memory, sent.data(), 16, cudaMemcpyHostToDevice));
  REQUIRE(values_of(memory, 4) == sent);
  REQUIRE_CUDA(cudaMemset(memory, 0, 8));
  REQUIRE(values_of(memory, 4) == std::vector<int>{0, 0, 3, 4});
  REQUIRE_CUDA(cudaFree(memory));
  REQUIRE(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("a copy of rows leaves what is between them", "[sim]") {
  const MachineScope machine;
  char* memory = device_memory<char>(12);
  REQUIRE_CUDA(cudaMemset(memory, 'x', 12));
  REQUIRE_CUDA(cudaMemcpy2DAsync(memory, 4, "abcdef", 2, 2, 3, cudaMemcpyHostToDevice));
  const std::vector<char> values = values_of(memory, 12);
  REQUIRE(std::string(values.begin(), values.end()) == "abxxcdxxefxx");
  REQUIRE(cudaMemcpy2DAsync(memory, 1, "abcdef", 2, 2, 3, cudaMemcpyHostToDevice) ==
          cudaErrorInvalidValue);
}

TEST_CASE("a copy is refused that leaves its allocation or names the wrong direction", "[sim]") {
  const MachineScope machine;
  char host[32] = {};
  char* memory = device_memory<char>(16);
  REQUIRE(cudaMemcpy(memory, host, 17, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(memory + 8, host, 9, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(memory, host, 8, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(host, memory, 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemset(host, 0, 8) == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("a device gives no more than its limit, and as much again after a free", "[sim]") {
  const MachineScope machine;
  cudasim::set_memory_limit(0, 8 * kMiB);
  char* first = device_memory<char>(6 * kMiB);
  char* second = nullptr;
  REQUIRE(cudaMalloc(&second, 4 * kMiB) == cudaErrorMemoryAllocation);
  REQUIRE(second == nullptr);
  size_t free = 0;
  size_t total = 0;
  REQUIRE_CUDA(cudaMemGetInfo(&free, &total));
  REQUIRE(free == 2 * kMiB);
  REQUIRE(total == 8 * kMiB);
  REQUIRE_CUDA(cudaFree(first));
  second = device_memory<char>(8 * kMiB);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("memory beyond 2^31 elements is a sparse mapping", "[sim]") {
  const MachineScope machine;
  constexpr size_t kCount = (size_t{1} << 31) + 512;
  float* memory = device_memory<float>(kCount);
  const float three = 3;
  REQUIRE_CUDA(cudaMemcpy(memory + kCount - 1, &three, 4, cudaMemcpyHostToDevice));
  REQUIRE(values_of(memory + kCount - 2, 2) == std::vector<float>{0, 3});
}

TEST_CASE("freed memory is not handed out again at once, and reads as NaN", "[sim]") {
  const MachineScope machine;
  float* first = device_memory<float>(1024);
  REQUIRE_CUDA(cudaMemset(first, 0, 4096));
  REQUIRE_CUDA(cudaFree(first));
  REQUIRE(first[0] != first[0]);
  for (int i = 0; i < 100; ++i) {
    float* next = device_memory<float>(1024);
    REQUIRE(next != first);
    REQUIRE_CUDA(cudaFree(next));
  }
}

TEST_CASE("a pool returns unused memory at a synchronisation, or keeps its threshold", "[sim]") {
  const MachineScope machine;
  cudaStream_t stream = new_stream();
  cudaMemPool_t pool = new_pool(0);
  const auto use = [&] {
    char* memory = nullptr;
    REQUIRE_CUDA(cudaMallocFromPoolAsync(&memory, 5 * kMiB, pool, stream));
    REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 5 * kMiB);
    REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 6 * kMiB);
    REQUIRE_CUDA(cudaFreeAsync(memory, stream));
    REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 6 * kMiB);
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
  };
  use();
  REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  uint64_t threshold = UINT64_MAX;
  REQUIRE_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  use();
  REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 6 * kMiB);
  REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 5 * kMiB);
  REQUIRE_CUDA(cudaMemPoolTrimTo(pool, 2 * kMiB));
  REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 2 * kMiB);
  uint64_t zero = 0;
  REQUIRE_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 0);
}

TEST_CASE("what a pool reserves counts against the device's limit", "[sim]") {
  const MachineScope machine;
  cudasim::set_memory_limit(0, 8 * kMiB);
  cudaStream_t stream = new_stream();
  cudaMemPool_t pool = new_pool(0);
  uint64_t threshold = UINT64_MAX;
  REQUIRE_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  char* memory = nullptr;
  REQUIRE_CUDA(cudaMallocFromPoolAsync(&memory, 6 * kMiB, pool, stream));
  char* more = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&more, 4 * kMiB, pool, stream) == cudaErrorMemoryAllocation);
  REQUIRE_CUDA(cudaFreeAsync(memory, stream));
  REQUIRE_CUDA(cudaStreamSynchronize(stream));
  REQUIRE(cudaMalloc(&more, 4 * kMiB) == cudaErrorMemoryAllocation);
  REQUIRE_CUDA(cudaMemPoolTrimTo(pool, 0));
  REQUIRE_CUDA(cudaMalloc(&more, 4 * kMiB));
}

TEST_CASE("pointers know what they are", "[sim]") {
  const MachineScope machine({.n_devices = 2});
  REQUIRE_CUDA(cudaSetDevice(1));
  cudaPointerAttributes attributes{};
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, device_memory<char>(8) + 3));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(attributes.device == 1);
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, pinned_memory<char>(8)));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  REQUIRE_CUDA(cudaPointerGetAttributes(&attributes, &attributes));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
}
