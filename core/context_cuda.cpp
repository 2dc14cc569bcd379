#include "heddle/core/context_cuda.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "heddle/core/cuda_devices.h"
#include "heddle/core/cuda_memory.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/memory_label.h"
#include "heddle/core/profiler.h"

namespace heddle::cuda {
namespace {

using detail::bytes_text;

constexpr int kMaxDevices = 64;
constexpr size_t kListedBlocks = 5;  // in an out-of-memory error

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
  detail::tell_profilers();
}

void* Context::from_pool(int64_t bytes, StreamRef stream) {
  void* data = nullptr;
  const cudaError_t status =
      cudaMallocFromPoolAsync(&data, static_cast<size_t>(bytes), pool_, stream.get());
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  HEDDLE_CUDA_CHECK(status);
  return data;
}

void* Context::allocate(int64_t bytes, StreamRef stream) {
  const DeviceGuard guard(device_);
  const int64_t asked = std::max<int64_t>(bytes, 1);
  void* data = from_pool(asked, stream);
  if (data == nullptr) {
    // What other streams have freed comes back once they have got there.
    HEDDLE_CUDA_CHECK(cudaDeviceSynchronize());
    HEDDLE_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
    data = from_pool(asked, stream);
  }
  if (data == nullptr) out_of_memory(asked);
  const std::lock_guard lock(mutex_);
  blocks_.emplace(data, Block{asked, stream.get(), {}, std::string(MemoryLabel::current())});
  stats_.in_use += asked;
  stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  const int64_t held = attribute(pool_, cudaMemPoolAttrReservedMemCurrent);
  if (held > stats_.held) ++stats_.system_calls;
  stats_.held = held;
  return data;
}

std::string Context::largest_blocks() {
  const std::lock_guard lock(mutex_);
  std::vector<const Block*> blocks;
  for (const auto& [data, block] : blocks_) blocks.push_back(&block);
  const size_t shown = std::min(blocks.size(), kListedBlocks);
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(shown),
                    blocks.end(),
                    [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::string text;
  for (size_t i = 0; i < shown; ++i)
    text += fmt::format("{} {} {}", i == 0 ? "; the largest:" : ",", bytes_text(blocks[i]->bytes),
                        blocks[i]->label.empty() ? "(no layer)" : blocks[i]->label);
  return text;
}

void Context::out_of_memory(int64_t asked) {
  const MemoryStats now = stats();
  size_t free = 0, total = 0;
  HEDDLE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  throw OutOfMemory(fmt::format(
      "memory: {} has no {} left{}: {} in use, {} more kept in the pool, {} of {} free{}",
      device_.to_string(), bytes_text(asked), detail::label_text(), bytes_text(now.in_use),
      bytes_text(std::max<int64_t>(0, now.held - now.in_use)),
      bytes_text(static_cast<int64_t>(free)), bytes_text(static_cast<int64_t>(total)),
      largest_blocks()));
}

void Context::release(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  const Block& block = found->second;
  stats_.in_use -= block.bytes;
  for (const StreamRef user : block.users) wait_quietly(block.stream, user);
  HEDDLE_CUDA_WARN(cudaFreeAsync(data, block.stream));
  blocks_.erase(found);
}

void Context::record_use(void* data, StreamRef stream) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end() || found->second.stream == stream.get()) return;
  std::vector<StreamRef>& users = found->second.users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void Context::leave_stream(cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [data, block] : blocks_) {
    for (const StreamRef user : block.users)
      if (user.get() == stream) wait_quietly(block.stream, user);
    std::erase_if(block.users, [&](StreamRef user) { return user.get() == stream; });
    if (block.stream != stream) continue;
    wait_quietly(stream_, {device_, stream});
    block.stream = stream_;
  }
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

namespace {

using Contexts = std::array<std::atomic<Context*>, kMaxDevices>;

Contexts& contexts() {
  static Contexts& instance = *new Contexts{};
  return instance;
}

}  // namespace

Context& context(Device device) {
  static std::mutex& mutex = *new std::mutex;
  HEDDLE_CHECK(device.type == DeviceType::kCuda && device.index >= 0 && device.index < kMaxDevices,
               "cuda: {} is no CUDA device", device.to_string());
  std::atomic<Context*>& place = contexts()[static_cast<size_t>(device.index)];
  Context* found = place.load(std::memory_order_acquire);
  if (found != nullptr) return *found;  // at the end of the program too, when CUDA is gone
  const std::string missing = why_missing(device);
  if (!missing.empty()) fail("{}: {}", device.to_string(), missing);
  const std::lock_guard lock(mutex);
  if (place.load(std::memory_order_relaxed) == nullptr)
    place.store(new Context(device), std::memory_order_release);
  return *place.load(std::memory_order_relaxed);
}

void leave_stream(cudaStream_t stream) noexcept {
  for (std::atomic<Context*>& place : contexts()) {
    Context* found = place.load(std::memory_order_acquire);
    if (found != nullptr) found->leave_stream(stream);
  }
}

void wait_quietly(cudaStream_t stream, StreamRef other) noexcept {
  if (stream == other.get()) return;
  cudaEvent_t event = nullptr;
  int previous = 0;
  // Not a DeviceGuard, which throws; an event belongs to the device that is current.
  HEDDLE_CUDA_WARN(cudaGetDevice(&previous));
  if (cudaSetDevice(other.device().index) != cudaSuccess) {
    // It has failed, which the call that hears of it first reports: nothing runs there any more.
    (void)cudaGetLastError();
    HEDDLE_CUDA_WARN(cudaSetDevice(previous));
    return;
  }
  HEDDLE_CUDA_WARN(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (event != nullptr) {
    HEDDLE_CUDA_WARN(cudaEventRecord(event, other.get()));
    HEDDLE_CUDA_WARN(cudaStreamWaitEvent(stream, event, 0));
    HEDDLE_CUDA_WARN(cudaEventDestroy(event));
  }
  HEDDLE_CUDA_WARN(cudaSetDevice(previous));
}

}  // namespace heddle::cuda
