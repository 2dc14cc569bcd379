#include "address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace cudasim {
namespace {

// Freed memory that keeps its fill of 0xff; older memory goes back to the system and reads as
// zeros.
constexpr size_t kQuarantineBytes = size_t{64} << 20;

size_t whole_pages(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// Addresses only: pages come with the first touch. No huge pages, or a sparse mapping would fill
/// up.
std::byte* reserve(size_t bytes) {
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  madvise(place, bytes, MADV_NOHUGEPAGE);
  madvise(place, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(place);
}

}  // namespace

AddressRange::AddressRange(std::byte* base, size_t bytes)
    : base_(base), bytes_(bytes), cursor_(base + kPageBytes) {
  std::byte* table = reserve(bytes / kPageBytes * sizeof(std::atomic<Allocation*>));
  if (table == nullptr) throw std::bad_alloc();
  // Zero pages are null pointers: nothing is constructed, or the whole table would be touched.
  table_ = reinterpret_cast<std::atomic<Allocation*>*>(table);
}

AddressRange::~AddressRange() { munmap(table_, bytes_ / kPageBytes * sizeof(*table_)); }

/// The first gap at or after the cursor that holds `bytes` and a page of distance. The first page
/// of the range stays empty: what lies just before an allocation is of its device.
std::byte* AddressRange::find_gap(size_t bytes) {
  const size_t needed = whole_pages(bytes) + kPageBytes;
  std::byte* const end = base_ + bytes_;
  for (std::byte* start : {cursor_, base_ + kPageBytes}) {
    if (auto before = live_.upper_bound(start); before != live_.begin()) {
      --before;
      start = std::max(start, before->first + whole_pages(before->second->bytes) + kPageBytes);
    }
    for (auto next = live_.lower_bound(start);; ++next) {
      std::byte* const limit = next == live_.end() ? end : next->first;
      if (start <= limit && static_cast<size_t>(limit - start) >= needed) return start;
      if (next == live_.end()) break;
      start = next->first + whole_pages(next->second->bytes) + kPageBytes;
    }
  }
  return nullptr;
}

std::byte* AddressRange::place(Allocation& allocation) {
  const size_t bytes = allocation.bytes;
  if (bytes > bytes_ / 2) return nullptr;
  const std::lock_guard lock(mutex_);
  std::byte* const start = find_gap(bytes);
  if (start == nullptr) return nullptr;
  std::byte* const end = start + whole_pages(bytes);
  cursor_ = end + kPageBytes;
  allocation.base = start;
  live_.emplace(start, &allocation);
  auto* const first = table_ + (start - base_) / static_cast<ptrdiff_t>(kPageBytes);
  const size_t n_pages = static_cast<size_t>(end - start) / kPageBytes;
  bool used_before = false;
  for (size_t page = 0; page < n_pages; ++page) {
    used_before = used_before || first[page].load(std::memory_order_relaxed) != nullptr;
    first[page].store(&allocation, std::memory_order_release);
  }
  // The page after it has no allocation, even where a freed one lay.
  if (first[n_pages].load(std::memory_order_relaxed) != nullptr) {
    first[n_pages].store(nullptr, std::memory_order_release);
    used_before = true;
  }
  if (used_before) forget_freed(start, end + kPageBytes);
  return start;
}

/// Freed allocations whose addresses are given out again must not be poisoned or returned later.
void AddressRange::forget_freed(const std::byte* first, const std::byte* last) {
  std::erase_if(quarantine_, [&](const Allocation* freed) {
    const bool overlaps = freed->base < last && first < freed->base + whole_pages(freed->bytes);
    if (overlaps) {
      madvise(freed->base, whole_pages(freed->bytes), MADV_DONTNEED);
      quarantine_bytes_ -= whole_pages(freed->bytes);
    }
    return overlaps;
  });
}

void AddressRange::release(Allocation& allocation) {
  const std::lock_guard lock(mutex_);
  live_.erase(allocation.base);
  const size_t bytes = whole_pages(allocation.bytes);
  if (bytes > kQuarantineBytes / 4) {
    madvise(allocation.base, bytes, MADV_DONTNEED);
    return;
  }
  std::memset(allocation.base, 0xff, allocation.bytes);
  quarantine_.push_back(&allocation);
  quarantine_bytes_ += bytes;
  trim_quarantine();
}

void AddressRange::trim_quarantine() {
  while (quarantine_bytes_ > kQuarantineBytes) {
    const Allocation* oldest = quarantine_.front();
    quarantine_.pop_front();
    madvise(oldest->base, whole_pages(oldest->bytes), MADV_DONTNEED);
    quarantine_bytes_ -= whole_pages(oldest->bytes);
  }
}

Allocation* AddressRange::previous(size_t offset) const noexcept {
  constexpr size_t kNearPages = 1024;
  const size_t page = offset / kPageBytes;
  for (size_t back = 0; back <= std::min(page, kNearPages); ++back) {
    if (Allocation* found = table_[page - back].load(std::memory_order_acquire)) return found;
  }
  return nullptr;
}

AddressSpace& AddressSpace::get() {
  static AddressSpace& space = *new AddressSpace;  // leaked: pointers into it outlive everything
  return space;
}

AddressSpace::AddressSpace() {
  // As much as the system gives: ThreadSanitizer leaves a program little room.
  constexpr size_t kLargest = size_t{512} << 30;
  constexpr size_t kSmallest = size_t{1} << 30;
  constexpr size_t kRanges = kMaxDevices + 1;
  for (range_bytes_ = kLargest; range_bytes_ >= kSmallest; range_bytes_ /= 2) {
    base_ = reserve(range_bytes_ * kRanges);
    if (base_ != nullptr) break;
  }
  if (base_ == nullptr) throw std::bad_alloc();
  total_ = range_bytes_ * kRanges;
  for (size_t i = 0; i < kRanges; ++i) {
    ranges_[i] = new AddressRange(base_ + i * range_bytes_, range_bytes_);
  }
}

}  // namespace cudasim
