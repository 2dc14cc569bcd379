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

__global__ void add_kernel(int* values, int amount) { values[threadIdx.x] += amount; }

__global__ void add_from_kernel(int* values, const int* amount) { values[threadIdx.x] += *amount; }

constexpr int kCount = 32;

cudaLaunchConfig_t in_stream(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = kCount;
  config.stream = stream;
  return config;
}

void add(cudaStream_t stream, int* values, int amount) {
  const cudaLaunchConfig_t config = in_stream(stream);
  REQUIRE_CUDA(cudaLaunchKernelEx(&config, add_kernel, values, amount));
}

void begin(cudaStream_t stream) {
  REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

size_t node_count(cudaGraph_t graph) {
  size_t count = 0;
  REQUIRE_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

/// A graph that can be launched, destroyed with its scope.
class Executable {
 public:
  explicit Executable(cudaGraph_t graph) {
    REQUIRE_CUDA(cudaGraphInstantiate(&exec_, graph));
    REQUIRE_CUDA(cudaGraphDestroy(graph));
  }
  ~Executable() { static_cast<void>(cudaGraphExecDestroy(exec_)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  operator cudaGraphExec_t() const { return exec_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

cudaGraph_t end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph));
  return graph;
}

int* zeros(cudaStream_t stream) {
  int* values = device_memory<int>(kCount);
  REQUIRE_CUDA(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
  return values;
}

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE_CUDA(cudaStreamIsCapturing(stream, &status));
  return status;
}

/// A capture that `spoil` makes invalid with `error`: it ends without a graph.
template <class Spoil>
void expect_spoiled(cudaError_t error, Spoil&& spoil) {
  cudaStream_t stream = new_stream();
  begin(stream);
  REQUIRE(spoil(stream) == error);
  REQUIRE(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(graph == nullptr);
  REQUIRE(status_of(stream) == cudaStreamCaptureStatusNone);
  static_cast<void>(cudaGetLastError());
}

}  // namespace

TEST_CASE("a captured stream does nothing until its graph is launched, then as often as asked",
          "[sim]") {
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLatest, Schedule::kRandom}) {
    const MachineScope scope({.schedule = schedule});
    cudaStream_t stream = new_stream();
    int* values = zeros(stream);
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    begin(stream);
    REQUIRE(status_of(stream) == cudaStreamCaptureStatusActive);
    add(stream, values, 1);
    add(stream, values, 2);
    const Executable exec(end(stream));
    REQUIRE(values_of(values, kCount) == std::vector<int>(kCount, 0));
    for (int i = 0; i < 3; ++i) REQUIRE_CUDA(cudaGraphLaunch(exec, stream));
    REQUIRE(values_of(values, kCount) == std::vector<int>(kCount, 9));
  }
}

TEST_CASE("arguments are frozen, what they point to is read at each replay", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  int* values = zeros(stream);
  int* amount = device_memory<int>(1);
  begin(stream);
  const cudaLaunchConfig_t config = in_stream(stream);
  REQUIRE_CUDA(cudaLaunchKernelEx(&config, add_from_kernel, values, amount));
  const Executable exec(end(stream));
  for (const int value : {10, 200}) {
    REQUIRE_CUDA(cudaMemcpyAsync(amount, &value, 4, cudaMemcpyHostToDevice, stream));
    REQUIRE_CUDA(cudaGraphLaunch(exec, stream));
  }
  REQUIRE(values_of(values, kCount) == std::vector<int>(kCount, 210));
}

TEST_CASE("a fork and join by events becomes part of the graph", "[sim]") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const MachineScope scope({.schedule = Schedule::kRandom, .seed = seed});
    const cudasim::ExpectOrderFindings expected;
    cudaStream_t stream = new_stream();
    cudaStream_t side = new_stream();
    int* values = zeros(stream);
    int* other = zeros(stream);
    int* pinned = pinned_memory<int>(kCount);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    begin(stream);
    add(stream, values, 1);
    order(stream, side);
    REQUIRE(status_of(side) == cudaStreamCaptureStatusActive);
    REQUIRE_CUDA(cudaMemcpyAsync(other, values, kCount * 4, cudaMemcpyDefault, side));
    add(side, other, 5);
    order(side, stream);
    REQUIRE_CUDA(cudaMemcpyAsync(pinned, other, kCount * 4, cudaMemcpyDefault, stream));
    cudaGraph_t graph = end(stream);
    REQUIRE(node_count(graph) == 4);
    const Executable exec(graph);
    REQUIRE_CUDA(cudaGraphLaunch(exec, stream));
    REQUIRE_CUDA(cudaGraphLaunch(exec, stream));
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    cudasim::host_access(pinned, kCount * 4, false);
    REQUIRE(pinned[3] == 7);
    for (const auto& finding : expected.found()) FAIL(to_text(finding));
  }
}

TEST_CASE("a missing wait inside a graph is found when it runs", "[sim]") {
  const MachineScope scope;
  const cudasim::ExpectOrderFindings expected;
  cudaStream_t stream = new_stream();
  cudaStream_t side = new_stream();
  int* values = zeros(stream);
  int* other = zeros(stream);
  REQUIRE_CUDA(cudaDeviceSynchronize());
  begin(stream);
  order(stream, side);
  REQUIRE_CUDA(cudaMemsetAsync(values, 1, kCount * 4, stream));
  REQUIRE_CUDA(cudaMemcpyAsync(other, values, kCount * 4, cudaMemcpyDefault, side));
  order(side, stream);
  const Executable exec(end(stream));
  REQUIRE_CUDA(cudaGraphLaunch(exec, stream));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE(expected.found().size() == 1);
  REQUIRE(expected.found()[0].fault == cudasim::OrderFault::kMissingWait);
}

TEST_CASE("work that was forked and not joined ends the capture without a graph", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  cudaStream_t side = new_stream();
  int* values = zeros(stream);
  begin(stream);
  add(stream, values, 1);
  order(stream, side);
  add(side, values, 1);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  REQUIRE(status_of(side) == cudaStreamCaptureStatusNone);
}

TEST_CASE("calls that wait for the device or allocate spoil a capture", "[sim]") {
  const MachineScope scope;
  int* values = zeros(nullptr);
  int host = 0;
  REQUIRE_CUDA(cudaDeviceSynchronize());
  expect_spoiled(cudaErrorStreamCaptureUnsupported,
                 [](cudaStream_t stream) { return cudaStreamSynchronize(stream); });
  expect_spoiled(cudaErrorStreamCaptureUnsupported,
                 [](cudaStream_t stream) { return cudaStreamQuery(stream); });
  expect_spoiled(cudaErrorStreamCaptureUnsupported,
                 [](cudaStream_t) { return cudaDeviceSynchronize(); });
  expect_spoiled(cudaErrorStreamCaptureUnsupported, [&](cudaStream_t) {
    return cudaMemcpy(&host, values, 4, cudaMemcpyDeviceToHost);
  });
  expect_spoiled(cudaErrorStreamCaptureUnsupported, [](cudaStream_t) {
    void* memory = nullptr;
    return cudaMalloc(&memory, 8);
  });
  expect_spoiled(cudaErrorStreamCaptureUnsupported, [](cudaStream_t) {
    void* memory = nullptr;
    return cudaMallocHost(&memory, 8);
  });
  expect_spoiled(cudaErrorStreamCaptureUnsupported, [](cudaStream_t stream) {
    void* memory = nullptr;
    return cudaMallocAsync(&memory, 8, stream);
  });
  expect_spoiled(cudaErrorStreamCaptureIsolation, [](cudaStream_t stream) {
    cudaEvent_t event = new_event();
    REQUIRE_CUDA(cudaEventRecord(event, new_stream()));
    return cudaStreamWaitEvent(stream, event);
  });
  expect_spoiled(cudaErrorIllegalState, [](cudaStream_t stream) {
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  });
}

TEST_CASE("the default stream must not meet a captured blocking stream", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream(cudaStreamDefault);
  int* values = zeros(nullptr);
  begin(stream);
  REQUIRE(cudaMemsetAsync(values, 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
          cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("an event of a capture cannot be asked or waited for outside", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  cudaEvent_t event = new_event();
  begin(stream);
  REQUIRE_CUDA(cudaEventRecord(event, stream));
  REQUIRE(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
  REQUIRE(cudaEventQuery(event) == cudaErrorCapturedEvent);
  REQUIRE_CUDA(cudaGraphDestroy(end(stream)));
  REQUIRE(cudaStreamWaitEvent(stream, event) == cudaErrorCapturedEvent);
  REQUIRE_CUDA(cudaEventRecord(event, stream));
  REQUIRE_CUDA(cudaEventSynchronize(event));
}

TEST_CASE("a thread-local capture leaves other threads alone, a global one does not", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  const auto allocate_elsewhere = [] {
    cudaError_t error = cudaSuccess;
    std::thread other([&error] {
      void* memory = nullptr;
      error = cudaMalloc(&memory, 8);
    });
    other.join();
    return error;
  };
  begin(stream);
  REQUIRE_CUDA(allocate_elsewhere());
  REQUIRE_CUDA(cudaGraphDestroy(end(stream)));
  cudaGraph_t graph = nullptr;
  REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  REQUIRE(allocate_elsewhere() == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("a capture is ended in its stream and by its thread", "[sim]") {
  const MachineScope scope;
  cudaStream_t stream = new_stream();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
  begin(stream);
  cudaError_t error = cudaSuccess;
  std::thread other([&] { error = cudaStreamEndCapture(stream, &graph); });
  other.join();
  REQUIRE(error == cudaErrorStreamCaptureWrongThread);
  cudaStream_t side = new_stream();
  order(stream, side);
  REQUIRE(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
}
