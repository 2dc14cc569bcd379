#include "heddle/tests/cudasim/machine.h"

using cudasim::OrderFault;
using cudasim::OrderFinding;
using cudasim::Schedule;
using heddle::test::device_memory;
using heddle::test::MachineScope;
using heddle::test::new_event;
using heddle::test::new_stream;
using heddle::test::order;
using heddle::test::pinned_memory;
using heddle::test::values_of;

namespace {

constexpr size_t kBytes = 1024;

// Without checks nobody sees what kernels touch, and nothing is launched here.

[[maybe_unused]] __global__ void fill_kernel(char* memory, int value) {
  memory[threadIdx.x] = static_cast<char>(value);
}

[[maybe_unused]] __global__ void sum_kernel(const char* memory, char* result) {
  result[threadIdx.x] = static_cast<char>(result[threadIdx.x] + memory[threadIdx.x]);
}

template <class... Parameters, class... Arguments>
[[maybe_unused]] void launch(cudaStream_t stream, void (*kernel)(Parameters...),
                             Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = kBytes;
  config.stream = stream;
  REQUIRE_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

const std::vector<cudasim::Machine> kSchedules = {
    {.n_devices = 2, .schedule = Schedule::kEager},
    {.n_devices = 2, .schedule = Schedule::kLatest},
    {.n_devices = 2, .schedule = Schedule::kRandom, .seed = 1},
    {.n_devices = 2, .schedule = Schedule::kRandom, .seed = 2},
    {.n_devices = 2, .schedule = Schedule::kRandom, .seed = 3}};

/// Runs a program in every schedule and expects one finding each time.
template <class Program>
void expect_fault(OrderFault fault, const std::string& first, const std::string& second,
                  Program&& program) {
  for (const cudasim::Machine& machine : kSchedules) {
    const MachineScope scope(machine);
    const cudasim::ExpectOrderFindings expected;
    program();
    REQUIRE_CUDA(cudaDeviceSynchronize());
    const std::vector<OrderFinding> found = expected.found();
    REQUIRE(found.size() == 1);
    INFO(to_text(found[0]));
    REQUIRE(found[0].fault == fault);
    const bool either = (found[0].first.find(first) == 0 && found[0].second.find(second) == 0) ||
                        (found[0].first.find(second) == 0 && found[0].second.find(first) == 0);
    REQUIRE(either);
    REQUIRE_THAT(found[0].buffer, ContainsSubstring("allocation"));
  }
}

template <class Program>
void expect_silence(Program&& program) {
  for (const cudasim::Machine& machine : kSchedules) {
    const MachineScope scope(machine);
    const cudasim::ExpectOrderFindings expected;
    program();
    REQUIRE_CUDA(cudaDeviceSynchronize());
    for (const OrderFinding& finding : expected.found()) FAIL(to_text(finding));
  }
}

char* pool_memory(cudaStream_t stream) {
  char* memory = nullptr;
  REQUIRE_CUDA(cudaMallocAsync(&memory, kBytes, stream));
  return memory;
}

void set(char* memory, int value, cudaStream_t stream) {
  REQUIRE_CUDA(cudaMemsetAsync(memory, value, kBytes, stream));
}

void copy(char* to, const char* from, cudaStream_t stream) {
  REQUIRE_CUDA(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream));
}

}  // namespace

TEST_CASE("a missing wait between streams is found", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "memset of 1024 bytes in stream 1 of device 0",
               "copy of 1024 bytes in stream 2 of device 0", [] {
                 cudaStream_t writer = new_stream();
                 cudaStream_t reader = new_stream();
                 char* memory = device_memory<char>(kBytes);
                 char* result = device_memory<char>(kBytes);
                 set(memory, 1, writer);
                 copy(result, memory, reader);
               });
}

TEST_CASE("a wait for an event that was recorded too early is found", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "memset", "copy", [] {
    cudaStream_t writer = new_stream();
    cudaStream_t reader = new_stream();
    char* memory = device_memory<char>(kBytes);
    char* result = device_memory<char>(kBytes);
    cudaEvent_t event = new_event();
    REQUIRE_CUDA(cudaEventRecord(event, writer));
    set(memory, 1, writer);
    REQUIRE_CUDA(cudaStreamWaitEvent(reader, event));
    copy(result, memory, reader);
  });
}

TEST_CASE("the default stream does not order a non-blocking stream", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "memset", "copy of 1024 bytes in the default stream", [] {
    cudaStream_t writer = new_stream();
    char* memory = device_memory<char>(kBytes);
    set(memory, 1, writer);
    std::vector<char> host(kBytes);
    REQUIRE_CUDA(cudaMemcpy(host.data(), memory, kBytes, cudaMemcpyDeviceToHost));
  });
}

TEST_CASE("a staging slot refilled before its copy is done is found", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "the host (write)", "copy", [] {
    cudaStream_t stream = new_stream();
    char* slot = pinned_memory<char>(kBytes);
    char* memory = device_memory<char>(kBytes);
    cudasim::host_access(slot, kBytes, true);
    copy(memory, slot, stream);
    cudasim::host_access(slot, kBytes, true);
  });
}

TEST_CASE("a result read before its copy is done is found", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "the host (read)", "copy", [] {
    cudaStream_t stream = new_stream();
    char* result = pinned_memory<char>(kBytes);
    char* memory = device_memory<char>(kBytes);
    set(memory, 1, stream);
    copy(result, memory, stream);
    cudasim::host_access(result, 4, false);
  });
}

// ST-1: memory released by its stream while a side stream still copies from it.
TEST_CASE("a free that does not wait for another stream's use is found", "[sim]") {
  expect_fault(OrderFault::kFreedInUse, "copy of 1024 bytes in stream 2 of device 0",
               "free of 1024 bytes in stream 1 of device 0", [] {
                 cudaStream_t owner = new_stream();
                 cudaStream_t side = new_stream();
                 char* a = pool_memory(owner);
                 char* r = device_memory<char>(kBytes);
                 set(a, 1, owner);
                 order(owner, side);
                 copy(r, a, side);
                 REQUIRE_CUDA(cudaFreeAsync(a, owner));
                 char* b = pool_memory(owner);
                 set(b, 7, owner);
               });
}

TEST_CASE("a free by the host while the pool's memory is in use is found", "[sim]") {
  expect_fault(OrderFault::kFreedInUse, "memset", "the host (cudaFree)", [] {
    cudaStream_t stream = new_stream();
    char* memory = pool_memory(stream);
    set(memory, 1, stream);
    REQUIRE_CUDA(cudaFree(memory));
  });
}

TEST_CASE("pinned memory freed while a copy may read it is found", "[sim]") {
  expect_fault(OrderFault::kFreedInUse, "copy", "the host (cudaFreeHost)", [] {
    cudaStream_t stream = new_stream();
    char* slot = pinned_memory<char>(kBytes);
    char* memory = device_memory<char>(kBytes);
    copy(memory, slot, stream);
    REQUIRE_CUDA(cudaFreeHost(slot));
  });
}

TEST_CASE("stream-ordered memory used before its allocation is ordered is found", "[sim]") {
  expect_fault(OrderFault::kUseBeforeAlloc, "allocation of 1024 bytes in stream 1", "memset", [] {
    cudaStream_t owner = new_stream();
    cudaStream_t side = new_stream();
    char* memory = pool_memory(owner);
    set(memory, 1, side);
  });
}

TEST_CASE("a copy from memory that was freed before is refused and found", "[sim]") {
  expect_fault(OrderFault::kUseAfterFree, "the free", "copy from of 1024 bytes", [] {
    cudaStream_t stream = new_stream();
    char* memory = pool_memory(stream);
    char* result = device_memory<char>(kBytes);
    set(memory, 1, stream);
    REQUIRE_CUDA(cudaFreeAsync(memory, stream));
    REQUIRE(cudaMemcpyAsync(result, memory, kBytes, cudaMemcpyDefault, stream) ==
            cudaErrorInvalidValue);
  });
}

TEST_CASE("a peer's copy that does not wait is found", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "memset of 1024 bytes in stream 1 of device 0",
               "copy of 1024 bytes in stream 2 of device 1", [] {
                 cudaStream_t first = new_stream();
                 char* memory = device_memory<char>(kBytes);
                 set(memory, 1, first);
                 REQUIRE_CUDA(cudaSetDevice(1));
                 cudaStream_t second = new_stream();
                 char* result = device_memory<char>(kBytes);
                 REQUIRE_CUDA(cudaMemcpyPeerAsync(result, 1, memory, 0, kBytes, second));
                 REQUIRE_CUDA(cudaDeviceSynchronize());
                 REQUIRE_CUDA(cudaSetDevice(0));
               });
}

TEST_CASE("what is ordered is silent: events, the host's waits, the default stream", "[sim]") {
  expect_silence([] {
    cudaStream_t a = new_stream();
    cudaStream_t b = new_stream();
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    char* memory = pool_memory(a);
    char* result = device_memory<char>(kBytes);
    char* pinned = pinned_memory<char>(kBytes);
    cudasim::host_access(pinned, kBytes, true);
    copy(memory, pinned, a);
    order(a, b);
    copy(result, memory, b);
    copy(pinned, memory, b);  // after a's copy read it
    REQUIRE_CUDA(cudaStreamSynchronize(b));
    cudasim::host_access(pinned, kBytes, false);
    cudasim::host_access(pinned, kBytes, true);
    set(result, 3, blocking);
    std::vector<char> host(kBytes);
    REQUIRE_CUDA(cudaMemcpy(host.data(), result, kBytes, cudaMemcpyDeviceToHost));
    order(b, a);
    REQUIRE_CUDA(cudaFreeAsync(memory, a));
    REQUIRE_CUDA(cudaFree(result));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE_CUDA(cudaFreeHost(pinned));
  });
}

TEST_CASE("a slot that waits for its event by query or wait is silent", "[sim]") {
  expect_silence([] {
    cudaStream_t stream = new_stream();
    char* slot = pinned_memory<char>(kBytes);
    char* memory = device_memory<char>(kBytes);
    cudaEvent_t copied = new_event();
    for (int i = 0; i < 6; ++i) {
      if (i % 2 == 0) {
        REQUIRE_CUDA(cudaEventSynchronize(copied));
      } else {
        while (cudaEventQuery(copied) == cudaErrorNotReady) {
        }
      }
      cudasim::host_access(slot, kBytes, true);
      copy(memory, slot, stream);
      REQUIRE_CUDA(cudaEventRecord(copied, stream));
    }
  });
}

TEST_CASE("readers need no order, and parts of a buffer are apart", "[sim]") {
  expect_silence([] {
    cudaStream_t a = new_stream();
    cudaStream_t b = new_stream();
    char* memory = device_memory<char>(2 * kBytes);
    REQUIRE_CUDA(cudaMemset(memory, 1, 2 * kBytes));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    char* x = device_memory<char>(kBytes);
    char* y = device_memory<char>(kBytes);
    copy(x, memory, a);
    copy(y, memory, b);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    set(memory, 1, a);
    set(memory + kBytes, 2, b);
  });
}

#ifdef CUDASIM_WITH_CHECKS
TEST_CASE("a kernel that does not wait for another stream's kernel is found and named", "[sim]") {
  expect_fault(OrderFault::kMissingWait, "kernel fill_kernel in stream 1 of device 0",
               "kernel sum_kernel in stream 2 of device 0", [] {
                 cudaStream_t a = new_stream();
                 cudaStream_t b = new_stream();
                 char* memory = device_memory<char>(kBytes);
                 char* result = device_memory<char>(kBytes);
                 REQUIRE_CUDA(cudaMemset(memory, 0, kBytes));
                 REQUIRE_CUDA(cudaMemset(result, 0, kBytes));
                 REQUIRE_CUDA(cudaDeviceSynchronize());
                 launch(a, fill_kernel, memory, 3);
                 launch(b, sum_kernel, memory, result);
               });
}

TEST_CASE("memory freed while another stream's kernel may use it is found", "[sim]") {
  const MachineScope scope;  // in other schedules the kernel may meet memory that is freed
  const cudasim::ExpectOrderFindings expected;
  cudaStream_t owner = new_stream();
  cudaStream_t side = new_stream();
  char* memory = pool_memory(owner);
  char* result = device_memory<char>(kBytes);
  set(memory, 1, owner);
  REQUIRE_CUDA(cudaMemset(result, 0, kBytes));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  launch(side, sum_kernel, memory, result);
  REQUIRE_CUDA(cudaFreeAsync(memory, owner));
  REQUIRE(expected.found().size() == 1);
  REQUIRE(expected.found()[0].fault == OrderFault::kFreedInUse);
  REQUIRE(expected.found()[0].first == "kernel sum_kernel in stream 2 of device 0");
  REQUIRE(expected.found()[0].second == "free of 1024 bytes in stream 1 of device 0");
}

TEST_CASE("kernels of several streams that wait, or share what they read, are silent", "[sim]") {
  expect_silence([] {
    cudaStream_t a = new_stream();
    cudaStream_t b = new_stream();
    char* memory = device_memory<char>(kBytes);
    char* x = device_memory<char>(2 * kBytes);
    REQUIRE_CUDA(cudaMemset(x, 0, 2 * kBytes));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    launch(a, fill_kernel, memory, 3);
    order(a, b);
    launch(b, sum_kernel, memory, x);
    launch(a, sum_kernel, memory, x + kBytes);
    REQUIRE(values_of(x, 2 * kBytes) == std::vector<char>(2 * kBytes, 3));
  });
}
#endif

TEST_CASE("a wrong program computes a wrong result in the latest schedule, every time", "[sim]") {
  for (int i = 0; i < 5; ++i) {
    const MachineScope scope({.schedule = Schedule::kLatest});
    const cudasim::ExpectOrderFindings expected;
    cudaStream_t stream = new_stream();
    char* slot = pinned_memory<char>(kBytes);
    char* memory = device_memory<char>(kBytes);
    slot[0] = 1;
    copy(memory, slot, stream);
    slot[0] = 2;
    REQUIRE(values_of(memory, 1)[0] == 2);
  }
}
