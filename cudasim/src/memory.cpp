#include "memory.h"

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "address_space.h"

namespace cudasim {
namespace {

std::atomic<MemoryObserver*> the_observer{nullptr};

/// Records are never destroyed: the page table and findings point to them.
Allocation* new_record() {
  static std::mutex& mutex = *new std::mutex;
  static std::deque<Allocation>& records = *new std::deque<Allocation>;
  const std::lock_guard lock(mutex);
  Allocation& record = records.emplace_back();
  record.id = records.size();
  return &record;
}

int range_number(int device, MemoryKind kind) {
  return kind == MemoryKind::kPinned ? kMaxDevices : device;
}

/// With 0xff; many pages are fetched in one call, which costs a fraction of as many faults.
void fill(std::byte* base, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr size_t kManyBytes = size_t{64} << 10;
  if (bytes >= kManyBytes) madvise(base, bytes, MADV_POPULATE_WRITE);  // else they fault one by one
#endif
  std::memset(base, 0xff, bytes);
}

}  // namespace

const Allocation* find_allocation(const void* address) noexcept {
  AddressSpace& space = AddressSpace::get();
  const int range = space.range_of(address);
  return range < 0 ? nullptr : space.range(range).find(space.offset_in_range(address));
}

const Allocation* previous_allocation(const void* address) noexcept {
  AddressSpace& space = AddressSpace::get();
  const int range = space.range_of(address);
  return range < 0 ? nullptr : space.range(range).previous(space.offset_in_range(address));
}

int device_of_address(const void* address) noexcept {
  const int range = AddressSpace::get().range_of(address);
  if (range < 0) return kForeignAddress;
  return range == kMaxDevices ? kPinnedAddress : range;
}

std::string describe(const Allocation& allocation) {
  std::string text = "allocation " + std::to_string(allocation.id) + " (" +
                     std::to_string(allocation.bytes) + " bytes of ";
  text += allocation.kind == MemoryKind::kPinned ? std::string("pinned host memory")
                                                 : "device " + std::to_string(allocation.device);
  if (allocation.kind == MemoryKind::kPool) text += ", from a pool";
  return text + ")";
}

void set_memory_observer(MemoryObserver* observer) noexcept { the_observer = observer; }
MemoryObserver* memory_observer() noexcept { return the_observer.load(std::memory_order_acquire); }

Allocation* place_allocation(int device, size_t bytes, MemoryKind kind, CUmemPoolHandle_st* pool) {
  Allocation* allocation = new_record();
  allocation->device = device;
  allocation->bytes = bytes;
  allocation->kind = kind;
  allocation->pool = pool;
  if (AddressSpace::get().range(range_number(device, kind)).place(*allocation) == nullptr) {
    allocation->freed = true;
    return nullptr;
  }
  if (bytes <= kFilledBytes) fill(allocation->base, bytes);
  return allocation;
}

void release_allocation(Allocation& allocation) {
  allocation.freed.store(true, std::memory_order_release);
  AddressSpace::get().range(range_number(allocation.device, allocation.kind)).release(allocation);
}

}  // namespace cudasim
