#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

struct CUmemPoolHandle_st;

// Where simulated memory lies. Each virtual device has one large reserved range of addresses,
// pinned host memory another; freed addresses are handed out again only when the whole range has
// been used, so that a use after a free is seen.
namespace cudasim {

enum class MemoryKind : uint8_t { kDevice, kPool, kPinned };

/// Addresses are given out in whole pages, with at least one page of no allocation after each.
constexpr size_t kPageBytes = 4096;
constexpr int kMaxDevices = 16;

/// One allocation, freed or not. Records are never destroyed: a pointer to one stays good.
struct Allocation {
  uint64_t id = 0;
  int device = 0;  // of pinned memory: the device that was current
  std::byte* base = nullptr;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  std::atomic<bool> freed{false};
  std::atomic<bool> free_queued{false};         // cudaFreeAsync was called, its turn has not come
  CUmemPoolHandle_st* pool = nullptr;           // of kPool
  mutable std::atomic<void*> shadow{nullptr};   // for the checkers
  mutable std::atomic<void*> history{nullptr};  // for the happens-before check

  bool contains(const void* address, size_t size) const {
    const auto* first = static_cast<const std::byte*>(address);
    return first >= base && size <= bytes && static_cast<size_t>(first - base) <= bytes - size;
  }
};

/// The allocation, alive or freed, on whose pages `address` lies; null for memory that is not
/// simulated and for the gaps. Takes no lock; costs two loads.
const Allocation* find_allocation(const void* address) noexcept;

/// The allocation that ends last before `address`, for the text of a finding; null where there is
/// none near.
const Allocation* previous_allocation(const void* address) noexcept;

/// The device in whose range `address` lies; -1 for pinned memory, -2 for memory not simulated.
int device_of_address(const void* address) noexcept;
constexpr int kPinnedAddress = -1;
constexpr int kForeignAddress = -2;

/// Whether kernels on `device` may touch the allocation: its own memory, pinned memory, and a
/// peer's, by cudaDeviceEnablePeerAccess (cudaMalloc) or cudaMemPoolSetAccess (pools).
bool may_access(int device, const Allocation& allocation) noexcept;

/// "allocation 12 (4096 bytes of device 0, from a pool)"
std::string describe(const Allocation& allocation);

/// What the checkers hear of memory. The runtime calls it with no lock of its own held, in the
/// order in which operations run.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  virtual void on_allocate(const Allocation& allocation) = 0;
  virtual void on_free(const Allocation& allocation) = 0;
  /// Bytes written from outside kernels: copies from the host, memset.
  virtual void on_host_write(const void* address, size_t bytes) = 0;
  /// Bytes read from outside kernels: copies to the host.
  virtual void on_host_read(const void* address, size_t bytes) = 0;
  /// Bytes copied between places that are both simulated.
  virtual void on_copy(const void* destination, const void* source, size_t bytes) = 0;
};

/// The observer (null: none), which outlives all use of it.
void set_memory_observer(MemoryObserver* observer) noexcept;
MemoryObserver* memory_observer() noexcept;

/// Gives out address space and nothing else: no limit is counted, no pool is asked. Fresh memory is
/// filled with 0xff (NaN in every float type) up to kFilledBytes; beyond, it is a sparse mapping.
/// Null where the range has no gap of that size.
Allocation* place_allocation(int device, size_t bytes, MemoryKind kind, CUmemPoolHandle_st* pool);
constexpr size_t kFilledBytes = size_t{64} << 20;

/// Marks it freed, fills it with 0xff, and gives older freed memory back to the system.
void release_allocation(Allocation& allocation);

}  // namespace cudasim
