#include "heddle/core/context_cuda.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "heddle/core/cuda_devices.h"
#include "heddle/core/device_guard.h"

namespace heddle::cuda {
namespace {

constexpr int kMaxDevices = 64;

cudaMemPool_t make_pool(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  HEDDLE_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  // By default a pool gives its memory back at every synchronisation.
  uint64_t keep_all = UINT64_MAX;
  HEDDLE_CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  return pool;
}

/// cudaDeviceEnablePeerAccess does not cover memory of pools.
void open_to_peers(cudaMemPool_t pool, int device) {
  for (int peer = 0; peer < device_count(); ++peer) {
    int reachable = 0;
    if (peer != device) HEDDLE_CUDA_CHECK(cudaDeviceCanAccessPeer(&reachable, peer, device));
    if (reachable == 0) continue;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    HEDDLE_CUDA_CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  }
}

int64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  HEDDLE_CUDA_CHECK(cudaMemPoolGetAttribute(pool, which, &value));
  return static_cast<int64_t>(value);
}

}  // namespace

Context::Context(Device device) : device_(device) {
  const DeviceGuard guard(device);
  HEDDLE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  pool_ = make_pool(device.index);
  open_to_peers(pool_, device.index);
}

void* Context::allocate(int64_t bytes, StreamRef stream) {
  const DeviceGuard guard(device_);
  const int64_t asked = std::max<int64_t>(bytes, 1);
  void* data = nullptr;
  HEDDLE_CUDA_CHECK(
      cudaMallocFromPoolAsync(&data, static_cast<size_t>(asked), pool_, stream.get()));
  const std::lock_guard lock(mutex_);
  blocks_.emplace(data, Block{asked, stream.get()});
  stats_.in_use += asked;
  stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  const int64_t held = attribute(pool_, cudaMemPoolAttrReservedMemCurrent);
  if (held > stats_.held) ++stats_.system_calls;
  stats_.held = held;
  return data;
}

void Context::release(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  stats_.in_use -= found->second.bytes;
  HEDDLE_CUDA_WARN(cudaFreeAsync(data, found->second.stream));
  blocks_.erase(found);
}

MemoryStats Context::stats() {
  const DeviceGuard guard(device_);
  const std::lock_guard lock(mutex_);
  stats_.held = attribute(pool_, cudaMemPoolAttrReservedMemCurrent);
  return stats_;
}

void Context::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_in_use = stats_.in_use;
}

void Context::release_cached() {
  const DeviceGuard guard(device_);
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  HEDDLE_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
}

Context& context(Device device) {
  static std::array<std::atomic<Context*>, kMaxDevices>& contexts =
      *new std::array<std::atomic<Context*>, kMaxDevices>{};
  static std::mutex& mutex = *new std::mutex;
  HEDDLE_CHECK(device.type == DeviceType::kCuda && device.index >= 0 && device.index < kMaxDevices,
               "cuda: {} is no CUDA device", device.to_string());
  std::atomic<Context*>& place = contexts[static_cast<size_t>(device.index)];
  Context* found = place.load(std::memory_order_acquire);
  if (found != nullptr) return *found;  // at the end of the program too, when CUDA is gone
  const std::string missing = why_missing(device);
  if (!missing.empty()) fail("{}: {}", device.to_string(), missing);
  const std::lock_guard lock(mutex);
  if (place.load(std::memory_order_relaxed) == nullptr)
    place.store(new Context(device), std::memory_order_release);
  return *place.load(std::memory_order_relaxed);
}

}  // namespace heddle::cuda
