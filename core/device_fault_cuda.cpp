#include "heddle/core/device_fault.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"

namespace heddle {
namespace {

struct Entry {
  Device device;
  DescribeFault describe;
  DeviceFault* fault;
};

/// Never destroyed: a kernel may still report when the program ends.
struct Registry {
  std::mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static auto* const the_registry = new Registry;
  return *the_registry;
}

DeviceFault* allocate(Device device) {
  const DeviceGuard guard(device);
  void* memory = nullptr;
  HEDDLE_CUDA_CHECK(cudaMallocHost(&memory, sizeof(DeviceFault)));
  return new (memory) DeviceFault;
}

}  // namespace

DeviceFault* device_fault(Device device, DescribeFault describe) {
  const std::lock_guard lock(registry().mutex);
  for (const Entry& entry : registry().entries)
    if (entry.device == device && entry.describe == describe) return entry.fault;
  registry().entries.push_back({device, describe, allocate(device)});
  return registry().entries.back().fault;
}

void check_device_faults(Device device) {
  const std::lock_guard lock(registry().mutex);
  for (const Entry& entry : registry().entries) {
    if (entry.device != device) continue;
    std::atomic_ref<int64_t> found(entry.fault->found);
    if (found.load(std::memory_order_acquire) == 0) continue;
    const std::string text = entry.describe(*entry.fault);
    found.store(0, std::memory_order_release);
    throw Error(text);
  }
}

}  // namespace heddle
