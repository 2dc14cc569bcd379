#include <atomic>
#include <mutex>
#include <thread>

#include "heddle/tests/cudasim/machine.h"

using cudasim::Schedule;
using heddle::test::device_memory;
using heddle::test::MachineScope;
using heddle::test::new_event;
using heddle::test::new_stream;
using heddle::test::order;
using heddle::test::pinned_memory;
using heddle::test::values_of;

namespace {

__global__ void add_kernel(int* values, int n, int amount) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) values[i] += amount;
}

__global__ void scale_kernel(int* values, int n, int factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) values[i] *= factor;
}

constexpr int kCount = 70;

cudaLaunchConfig_t in_stream(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 3;
  config.blockDim = 32;
  config.stream = stream;
  return config;
}

void add(cudaStream_t stream, int* values, int amount) {
  const cudaLaunchConfig_t config = in_stream(stream);
  REQUIRE_CUDA(cudaLaunchKernelEx(&config, add_kernel, values, kCount, amount));
}

void scale(cudaStream_t stream, int* values, int factor) {
  const cudaLaunchConfig_t config = in_stream(stream);
  REQUIRE_CUDA(cudaLaunchKernelEx(&config, scale_kernel, values, kCount, factor));
}

std::vector<cudasim::Machine> all_schedules(int n_devices = 1) {
  std::vector<cudasim::Machine> machines = {
      {.n_devices = n_devices, .schedule = Schedule::kEager},
      {.n_devices = n_devices, .schedule = Schedule::kLatest}};
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    machines.push_back({.n_devices = n_devices, .schedule = Schedule::kRandom, .seed = seed});
  }
  return machines;
}

}  // namespace

TEST_CASE("a stream keeps its order in every schedule", "[sim]") {
  for (const cudasim::Machine& machine : all_schedules()) {
    const MachineScope scope(machine);
    cudaStream_t stream = new_stream();
    int* values = device_memory<int>(kCount);
    REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
    add(stream, values, 2);
    scale(stream, values, 5);
    add(stream, values, 1);
    REQUIRE(values_of(values, kCount) == std::vector<int>(kCount, 11));
  }
}

TEST_CASE("events order streams, across devices too", "[sim]") {
  for (const cudasim::Machine& machine : all_schedules(2)) {
    const MachineScope scope(machine);
    cudaStream_t first = new_stream();
    int* values = device_memory<int>(kCount);
    REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), first));
    add(first, values, 3);
    REQUIRE_CUDA(cudaSetDevice(1));
    cudaStream_t second = new_stream();
    int* copied = device_memory<int>(kCount);
    order(first, second);
    REQUIRE_CUDA(cudaMemcpyPeerAsync(copied, 1, values, 0, kCount * sizeof(int), second));
    scale(second, copied, 7);
    REQUIRE(values_of(copied, kCount) == std::vector<int>(kCount, 21));
    REQUIRE_CUDA(cudaSetDevice(0));
  }
}

TEST_CASE("the latest schedule runs nothing before it must, and then only what is needed",
          "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  cudaStream_t first = new_stream();
  cudaStream_t second = new_stream();
  int* a = device_memory<int>(kCount);
  int* b = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(a, 0, kCount * sizeof(int), first));
  REQUIRE_CUDA(cudaMemsetAsync(b, 0, kCount * sizeof(int), second));
  add(first, a, 1);
  REQUIRE(cudasim::pending_operations() == 3);
  REQUIRE_CUDA(cudaStreamSynchronize(first));
  REQUIRE(a[0] == 1);
  REQUIRE(cudasim::pending_operations() == 1);
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE(cudasim::pending_operations() == 0);
}

TEST_CASE("a query says not ready before the work has run, but not for ever", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  cudaStream_t stream = new_stream();
  cudaEvent_t event = new_event();
  REQUIRE_CUDA(cudaEventQuery(event));
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
  REQUIRE_CUDA(cudaEventRecord(event, stream));
  REQUIRE(cudaEventQuery(event) == cudaErrorNotReady);
  REQUIRE_CUDA(cudaEventQuery(event));
  add(stream, values, 1);
  REQUIRE(cudaStreamQuery(stream) == cudaErrorNotReady);
  REQUIRE_CUDA(cudaStreamQuery(stream));
  REQUIRE(values[0] == 1);
  REQUIRE(cudaGetLastError() == cudaErrorNotReady);
}

TEST_CASE("pageable memory is read at the call, pinned memory when the copy runs", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  const cudasim::ExpectOrderFindings expected;
  cudaStream_t stream = new_stream();
  int* values = device_memory<int>(2);
  int pageable = 1;
  int* pinned = pinned_memory<int>(1);
  *pinned = 1;
  REQUIRE_CUDA(cudaMemcpyAsync(values, &pageable, 4, cudaMemcpyHostToDevice, stream));
  REQUIRE_CUDA(cudaMemcpyAsync(values + 1, pinned, 4, cudaMemcpyHostToDevice, stream));
  REQUIRE(cudasim::pending_operations() == 2);
  pageable = 2;
  *pinned = 2;
  REQUIRE(values_of(values, 2) == std::vector<int>{1, 2});
}

TEST_CASE("a copy to pageable memory is done when the call returns, one to pinned memory not",
          "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  cudaStream_t stream = new_stream();
  int* values = device_memory<int>(kCount);
  int* pinned = pinned_memory<int>(1);
  *pinned = -1;
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
  add(stream, values, 4);
  REQUIRE_CUDA(cudaMemcpyAsync(pinned, values, 4, cudaMemcpyDeviceToHost, stream));
  REQUIRE(*pinned == -1);
  int pageable = 0;
  REQUIRE_CUDA(cudaMemcpyAsync(&pageable, values, 4, cudaMemcpyDeviceToHost, stream));
  REQUIRE(pageable == 4);
  REQUIRE(*pinned == 4);
}

TEST_CASE("the default stream waits for blocking streams and they for it, others do not", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  cudaStream_t blocking = new_stream(cudaStreamDefault);
  cudaStream_t other = new_stream(cudaStreamNonBlocking);
  int* a = device_memory<int>(kCount);
  int* b = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(b, 0, kCount * sizeof(int), other));
  REQUIRE_CUDA(cudaMemsetAsync(a, 0, kCount * sizeof(int), blocking));
  add(nullptr, a, 2);
  scale(blocking, a, 3);
  int result = 0;
  REQUIRE_CUDA(cudaMemcpy(&result, a, 4, cudaMemcpyDeviceToHost));
  REQUIRE(result == 6);
  REQUIRE(cudasim::pending_operations() == 1);  // the non-blocking stream's
}

TEST_CASE("a copy between devices' memories does not wait on the host", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  int* a = device_memory<int>(kCount);
  int* b = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemset(a, 0, kCount * sizeof(int)));
  REQUIRE_CUDA(cudaMemcpy(b, a, kCount * sizeof(int), cudaMemcpyDeviceToDevice));
  REQUIRE(cudasim::pending_operations() == 2);
  REQUIRE(values_of(b, kCount) == std::vector<int>(kCount, 0));
}

TEST_CASE("host functions run in order, and must not call the runtime", "[sim]") {
  for (const cudasim::Machine& machine : all_schedules()) {
    const MachineScope scope(machine);
    cudaStream_t stream = new_stream();
    struct Seen {
      int* pinned;
      int value = 0;
      cudaError_t error = cudaSuccess;
    } seen{pinned_memory<int>(1)};
    int* values = device_memory<int>(kCount);
    REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
    add(stream, values, 9);
    REQUIRE_CUDA(cudaMemcpyAsync(seen.pinned, values, 4, cudaMemcpyDeviceToHost, stream));
    const auto look = [](void* data) {
      auto& into = *static_cast<Seen*>(data);
      cudasim::host_access(into.pinned, 4, false);
      into.value = *into.pinned;
      into.error = cudaDeviceSynchronize();
    };
    REQUIRE_CUDA(cudaLaunchHostFunc(stream, look, &seen));
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    REQUIRE(seen.value == 9);
    REQUIRE(seen.error == cudaErrorNotPermitted);
  }
}

TEST_CASE("a host function may take a lock that the caller holds", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    const auto take = [](void* data) {
      const std::lock_guard own(*static_cast<std::mutex*>(data));
    };
    REQUIRE_CUDA(cudaLaunchHostFunc(stream, take, &mutex));
  }
  REQUIRE_CUDA(cudaStreamSynchronize(stream));
}

TEST_CASE("timed events measure, untimed ones refuse", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  cudaEvent_t start = new_event(cudaEventDefault);
  cudaEvent_t end = new_event(cudaEventDefault);
  float milliseconds = -1;
  REQUIRE(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaEventRecord(start, stream));
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
  add(stream, values, 1);
  REQUIRE_CUDA(cudaEventRecord(end, stream));
  REQUIRE_CUDA(cudaEventSynchronize(end));
  REQUIRE_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
  REQUIRE(milliseconds > 0);
  cudaEvent_t untimed = new_event();
  REQUIRE_CUDA(cudaEventRecord(untimed, stream));
  REQUIRE(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("handles that are dead or of another device are refused", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  cudaStream_t stream = new_stream();
  cudaEvent_t event = new_event();
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaSetDevice(1));
  const cudaLaunchConfig_t config = in_stream(stream);
  REQUIRE(cudaLaunchKernelEx(&config, add_kernel, values, kCount, 1) ==
          cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventRecord(event, new_stream()) == cudaErrorInvalidResourceHandle);
  REQUIRE_CUDA(cudaSetDevice(0));
  REQUIRE_CUDA(cudaStreamDestroy(stream));
  REQUIRE(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE_CUDA(cudaEventDestroy(event));
  REQUIRE(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("work of a destroyed stream still runs, and the device waits for it", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  cudaStream_t stream = new_stream();
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
  add(stream, values, 8);
  REQUIRE_CUDA(cudaStreamDestroy(stream));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE(values[kCount - 1] == 8);
}

TEST_CASE("several host threads may use the runtime, each on its device", "[sim]") {
  for (const cudasim::Machine& machine : all_schedules(3)) {
    const MachineScope scope(machine);
    std::atomic<int> n_right{0};
    const auto work = [&n_right](int device) {
      if (cudaSetDevice(device) != cudaSuccess) return;
      cudaStream_t stream = nullptr;
      int* values = nullptr;
      if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
      if (cudaMallocAsync(&values, kCount * sizeof(int), stream) != cudaSuccess) return;
      if (cudaMemsetAsync(values, 0, kCount * sizeof(int), stream) != cudaSuccess) return;
      const cudaLaunchConfig_t config = in_stream(stream);
      for (int i = 0; i < 50; ++i) {
        if (cudaLaunchKernelEx(&config, add_kernel, values, kCount, 1) != cudaSuccess) return;
      }
      int result = 0;
      if (cudaMemcpyAsync(&result, values, 4, cudaMemcpyDeviceToHost, stream) != cudaSuccess)
        return;
      if (cudaFreeAsync(values, stream) != cudaSuccess) return;
      if (result == 50) ++n_right;
    };
    std::vector<std::thread> threads;
    for (int device = 0; device < 3; ++device) threads.emplace_back(work, device);
    for (std::thread& thread : threads) thread.join();
    REQUIRE(n_right == 3);
  }
}

TEST_CASE("each host thread has its own per-thread default stream", "[sim]") {
  const MachineScope scope({.schedule = Schedule::kLatest});
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), cudaStreamPerThread));
  std::thread other([] { REQUIRE_CUDA(cudaStreamSynchronize(cudaStreamPerThread)); });
  other.join();
  REQUIRE(cudasim::pending_operations() == 1);
  REQUIRE_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  REQUIRE(cudasim::pending_operations() == 0);
}
