#include <cstring>
#include <string>
#include <thread>

#include "heddle/tests/cudasim/machine.h"

using heddle::test::device_memory;
using heddle::test::MachineScope;
using heddle::test::new_stream;

namespace {

cudaError_t copy_between(void* to, const void* from) {
  return cudaMemcpyAsync(to, from, 16, cudaMemcpyDeviceToDevice, nullptr);
}

char* on_device(int device) {
  REQUIRE_CUDA(cudaSetDevice(device));
  char* memory = device_memory<char>(16);
  REQUIRE_CUDA(cudaMemset(memory, device, 16));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  return memory;
}

}  // namespace

TEST_CASE("a machine has as many devices as it is given", "[sim]") {
  int count = -1;
  {
    const MachineScope scope({.n_devices = 16});
    REQUIRE_CUDA(cudaGetDeviceCount(&count));
    REQUIRE(count == 16);
    REQUIRE_CUDA(cudaSetDevice(15));
    REQUIRE(cudaSetDevice(16) == cudaErrorInvalidDevice);
    REQUIRE(cudaSetDevice(-1) == cudaErrorInvalidDevice);
    int device = -1;
    REQUIRE_CUDA(cudaGetDevice(&device));
    REQUIRE(device == 15);
  }
  const MachineScope none({.n_devices = 0});
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  REQUIRE(count == 0);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 8) == cudaErrorNoDevice);
  REQUIRE_THROWS_AS(cudasim::reset({.n_devices = 17}), std::invalid_argument);
  REQUIRE_THROWS_AS(cudasim::reset({.card = "A1000"}), std::invalid_argument);
}

TEST_CASE("a new host thread begins on device 0", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  REQUIRE_CUDA(cudaSetDevice(1));
  int device = -1;
  std::thread other([&device] { REQUIRE_CUDA(cudaGetDevice(&device)); });
  other.join();
  REQUIRE(device == 0);
}

TEST_CASE("devices have the figures of their card", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  cudasim::set_card(1, "H100");
  cudaDeviceProp properties{};
  REQUIRE_CUDA(cudaGetDeviceProperties(&properties, 0));
  REQUIRE_THAT(properties.name, ContainsSubstring("A100"));
  REQUIRE(properties.major == 8);
  REQUIRE(properties.minor == 0);
  REQUIRE(properties.multiProcessorCount == 108);
  REQUIRE(properties.sharedMemPerBlock == 48 << 10);
  REQUIRE(properties.sharedMemPerBlockOptin == 163 << 10);
  REQUIRE(properties.warpSize == 32);
  int value = 0;
  REQUIRE_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
  REQUIRE(value == 9);
  REQUIRE_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 1));
  REQUIRE(value == 227 << 10);
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 2) == cudaErrorInvalidDevice);
  REQUIRE(cudasim::cards().size() >= 5);
}

TEST_CASE("peer access is possible by pair, and enabled once", "[sim]") {
  const MachineScope scope({.n_devices = 3});
  cudasim::set_peer_access(0, 2, false);
  int can = -1;
  REQUIRE_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  REQUIRE(can == 1);
  REQUIRE_CUDA(cudaDeviceCanAccessPeer(&can, 0, 2));
  REQUIRE(can == 0);
  REQUIRE_CUDA(cudaDeviceCanAccessPeer(&can, 1, 1));
  REQUIRE(can == 0);
  REQUIRE_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  REQUIRE(cudaDeviceEnablePeerAccess(2, 0) == cudaErrorPeerAccessUnsupported);
  REQUIRE(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  REQUIRE_CUDA(cudaDeviceDisablePeerAccess(1));
  REQUIRE(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
}

TEST_CASE("copies between devices need no peer access for cudaMalloc", "[sim]") {
  const MachineScope scope({.n_devices = 2, .peer_access = false});
  char* a = on_device(0);
  char* b = on_device(1);
  REQUIRE_CUDA(copy_between(a, b));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE(a[7] == 1);
}

TEST_CASE("a pool's memory is opened to a peer by cudaMemPoolSetAccess only", "[sim]") {
  const MachineScope scope({.n_devices = 3});
  char* there = on_device(1);
  REQUIRE_CUDA(cudaDeviceEnablePeerAccess(0, 0));
  REQUIRE_CUDA(cudaSetDevice(0));
  REQUIRE_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  char* pooled = nullptr;
  REQUIRE_CUDA(cudaMallocAsync(&pooled, 16, nullptr));
  REQUIRE_CUDA(cudaMemset(pooled, 5, 16));
  REQUIRE(copy_between(there, pooled) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaMemcpyPeerAsync(there, 1, pooled, 0, 16, nullptr));
  cudaMemPool_t pool = nullptr;
  REQUIRE_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  REQUIRE_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  REQUIRE_CUDA(copy_between(there, pooled));
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  REQUIRE_CUDA(cudaMemPoolGetAccess(&flags, pool, &access.location));
  REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
  cudasim::set_peer_access(1, 0, false);
  REQUIRE(copy_between(there, pooled) == cudaErrorInvalidValue);
  cudasim::set_peer_access(2, 0, false);
  access.location.id = 2;
  REQUIRE(cudaMemPoolSetAccess(pool, &access, 1) == cudaErrorInvalidDevice);
}

TEST_CASE("a peer copy that names the wrong device is refused", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  char* a = on_device(0);
  char* b = on_device(1);
  REQUIRE_CUDA(cudaMemcpyPeerAsync(a, 0, b, 1, 16, nullptr));
  REQUIRE(cudaMemcpyPeerAsync(a, 1, b, 1, 16, nullptr) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpyPeerAsync(a, 0, b, 2, 16, nullptr) == cudaErrorInvalidDevice);
}

TEST_CASE("a peer copy cannot be captured, a plain one between devices can", "[sim]") {
  const MachineScope scope({.n_devices = 2});
  char* a = on_device(0);
  char* b = on_device(1);
  cudaStream_t stream = nullptr;
  REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = nullptr;
  REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  REQUIRE_CUDA(cudaMemcpyAsync(a, b, 16, cudaMemcpyDeviceToDevice, stream));
  REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph));
  REQUIRE_CUDA(cudaGraphDestroy(graph));
  REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  REQUIRE(cudaMemcpyPeerAsync(a, 0, b, 1, 16, stream) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  REQUIRE_CUDA(cudaStreamDestroy(stream));
}
