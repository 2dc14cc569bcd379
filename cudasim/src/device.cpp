#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "pool.h"
#include "stream.h"

namespace cudasim {

constinit thread_local int current_device = 0;

namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kGiB = size_t{1} << 30;

// From NVIDIA's data sheets and the compute capability table of the CUDA programming guide.
constexpr Card kCards[] = {
    {"V100", "Tesla V100-SXM2-16GB", 7, 0, 80, 16 * kGiB, 96 * kKiB, 96 * kKiB, 2048, 32, 6 << 20,
     4096, 877000, 1530000},
    {"T4", "Tesla T4", 7, 5, 40, 15 * kGiB, 64 * kKiB, 64 * kKiB, 1024, 16, 4 << 20, 256, 5001000,
     1590000},
    {"A100", "NVIDIA A100-SXM4-40GB", 8, 0, 108, 40 * kGiB, 163 * kKiB, 164 * kKiB, 2048, 32,
     40 << 20, 5120, 1215000, 1410000},
    {"RTX 3060", "NVIDIA GeForce RTX 3060", 8, 6, 28, 12 * kGiB, 99 * kKiB, 100 * kKiB, 1536, 16,
     2304 * 1024, 192, 7501000, 1777000},
    {"RTX 4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 24 * kGiB, 99 * kKiB, 100 * kKiB, 1536, 24,
     72 << 20, 384, 10501000, 2520000},
    {"H100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 80 * kGiB, 227 * kKiB, 228 * kKiB, 2048, 32,
     50 << 20, 5120, 2619000, 1980000},
};

int attribute_of(const Card& card, cudaDeviceAttr attribute) {
  const std::pair<cudaDeviceAttr, int> values[] = {
      {cudaDevAttrMaxThreadsPerBlock, kMaxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, kMaxBlockDim[0]},
      {cudaDevAttrMaxBlockDimY, kMaxBlockDim[1]},
      {cudaDevAttrMaxBlockDimZ, kMaxBlockDim[2]},
      {cudaDevAttrMaxGridDimX, kMaxGridDim[0]},
      {cudaDevAttrMaxGridDimY, kMaxGridDim[1]},
      {cudaDevAttrMaxGridDimZ, kMaxGridDim[2]},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<int>(kSharedBytesDefault)},
      {cudaDevAttrWarpSize, kWarpSize},
      {cudaDevAttrMaxRegistersPerBlock, kRegistersPerBlock},
      {cudaDevAttrMaxRegistersPerMultiprocessor, kRegistersPerBlock},
      {cudaDevAttrClockRate, card.clock_khz},
      {cudaDevAttrMultiProcessorCount, card.n_multiprocessors},
      {cudaDevAttrMemoryClockRate, card.memory_clock_khz},
      {cudaDevAttrGlobalMemoryBusWidth, card.memory_bus_bits},
      {cudaDevAttrL2CacheSize, card.l2_bytes},
      {cudaDevAttrMaxThreadsPerMultiProcessor, card.threads_per_multiprocessor},
      {cudaDevAttrComputeCapabilityMajor, card.major},
      {cudaDevAttrComputeCapabilityMinor, card.minor},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor,
       static_cast<int>(card.shared_bytes_per_multiprocessor)},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<int>(card.shared_bytes_opt_in)},
      {cudaDevAttrMaxBlocksPerMultiprocessor, card.blocks_per_multiprocessor},
      {cudaDevAttrMemoryPoolsSupported, 1},
  };
  const auto* const found =
      std::ranges::find(values, attribute, &std::pair<cudaDeviceAttr, int>::first);
  return found == std::end(values) ? -1 : found->second;
}

void fill_properties(const Device& device, int index, cudaDeviceProp& out) {
  const Card& card = *device.card;
  out = {};
  std::snprintf(out.name, sizeof out.name, "%s (cudasim)", card.full_name);
  out.totalGlobalMem = device.memory_limit;
  out.sharedMemPerBlock = kSharedBytesDefault;
  out.regsPerBlock = kRegistersPerBlock;
  out.warpSize = kWarpSize;
  out.maxThreadsPerBlock = kMaxThreadsPerBlock;
  std::copy(std::begin(kMaxBlockDim), std::end(kMaxBlockDim), out.maxThreadsDim);
  std::copy(std::begin(kMaxGridDim), std::end(kMaxGridDim), out.maxGridSize);
  out.major = card.major;
  out.minor = card.minor;
  out.multiProcessorCount = card.n_multiprocessors;
  out.pciBusID = index + 1;
  out.asyncEngineCount = 2;
  out.unifiedAddressing = 1;
  out.memoryBusWidth = card.memory_bus_bits;
  out.l2CacheSize = card.l2_bytes;
  out.maxThreadsPerMultiProcessor = card.threads_per_multiprocessor;
  out.sharedMemPerMultiprocessor = card.shared_bytes_per_multiprocessor;
  out.regsPerMultiprocessor = kRegistersPerBlock;
  out.sharedMemPerBlockOptin = card.shared_bytes_opt_in;
  out.maxBlocksPerMultiProcessor = card.blocks_per_multiprocessor;
  out.memoryPoolsSupported = 1;
}

/// Gives the device's memory free and makes its streams, events and pools useless.
cudaError_t reset_device(Lock& lock) {
  Device& device = runtime().current();
  wait_for_device(lock, current_device);
  Runtime& state = runtime();
  std::erase_if(state.alive, [&](const Allocation* allocation) {
    if (allocation->device != current_device) return false;
    if (MemoryObserver* observer = memory_observer()) observer->on_free(*allocation);
    release_allocation(const_cast<Allocation&>(*allocation));
    return true;
  });
  for (CUstream_st* stream : device.streams) state.handles.erase(stream);
  device.streams.clear();
  device.malloc_bytes = 0;
  for (CUmemPoolHandle_st* pool : device.pools) {
    if (pool != device.default_pool) state.handles.erase(pool);
    pool->used = pool->reserved = 0;
  }
  device.pools = {device.default_pool};
  device.current_pool = device.default_pool;
  for (auto& enabled : device.peer_enabled) enabled = false;
  device.sticky = cudaSuccess;
  return cudaSuccess;
}

}  // namespace

const Card* find_card(const std::string& name) {
  for (const Card& card : kCards) {
    if (name == card.name) return &card;
  }
  return nullptr;
}

std::vector<std::string> cards() {
  std::vector<std::string> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  return names;
}

size_t Device::used_bytes() const {
  size_t used = malloc_bytes;
  for (const CUmemPoolHandle_st* pool : pools) used += pool->reserved;
  return used;
}

bool may_access(int device, const Allocation& allocation) noexcept {
  if (allocation.kind == MemoryKind::kPinned || allocation.device == device) return true;
  const Device& from = runtime().devices[static_cast<size_t>(device)];
  if (allocation.kind == MemoryKind::kPool) {
    return allocation.pool->access[static_cast<size_t>(device)] &&
           from.peer_possible[static_cast<size_t>(allocation.device)];
  }
  return from.peer_enabled[static_cast<size_t>(allocation.device)];
}

}  // namespace cudasim

using cudasim::current_device;
using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = runtime().n_devices;
  return cudasim::end_call(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudasim::end_call(runtime().n_devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  const cudasim::Runtime& state = runtime();
  if (state.n_devices == 0) return cudasim::end_call(cudaErrorNoDevice);
  if (!state.valid_device(device)) return cudasim::end_call(cudaErrorInvalidDevice);
  current_device = device;
  return cudasim::end_call(state.devices[static_cast<size_t>(device)].sticky);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cudasim::api([&](Lock&) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!runtime().valid_device(device)) return cudaErrorInvalidDevice;
    cudasim::fill_properties(runtime().devices[static_cast<size_t>(device)], device, *properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return cudasim::api([&](Lock&) {
    if (!runtime().valid_device(device)) return cudaErrorInvalidDevice;
    *value = cudasim::attribute_of(*runtime().devices[static_cast<size_t>(device)].card, attribute);
    return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return cudasim::api([&](Lock& lock) {
    if (const cudaError_t error = cudasim::check_device_wait(current_device)) return error;
    cudasim::wait_for_device(lock, current_device);
    return runtime().current().sticky.load();
  });
}

cudaError_t cudaDeviceReset() {
  // It mends a sticky error, so it must not stop at one.
  Lock lock(runtime().mutex);
  if (runtime().n_devices == 0) return cudasim::end_call(cudaErrorNoDevice);
  return cudasim::reset_device(lock);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return cudasim::api([&](Lock&) {
    cudasim::Runtime& state = runtime();
    if (!state.valid_device(device) || !state.valid_device(peer)) return cudaErrorInvalidDevice;
    const cudasim::Device& from = state.devices[static_cast<size_t>(device)];
    *can = device != peer && from.peer_possible[static_cast<size_t>(peer)] ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return cudasim::api([&](Lock&) {
    cudasim::Runtime& state = runtime();
    if (flags != 0) return cudaErrorInvalidValue;
    if (!state.valid_device(peer) || peer == current_device) return cudaErrorInvalidDevice;
    const auto index = static_cast<size_t>(peer);
    if (!state.current().peer_possible[index]) return cudaErrorPeerAccessUnsupported;
    return state.current().peer_enabled[index].exchange(true) ? cudaErrorPeerAccessAlreadyEnabled
                                                              : cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return cudasim::api([&](Lock&) {
    cudasim::Runtime& state = runtime();
    if (!state.valid_device(peer)) return cudaErrorInvalidDevice;
    return state.current().peer_enabled[static_cast<size_t>(peer)].exchange(false)
               ? cudaSuccess
               : cudaErrorPeerAccessNotEnabled;
  });
}
