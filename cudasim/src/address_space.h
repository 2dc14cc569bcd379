#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>

#include "memory.h"

namespace cudasim {

/// One reserved range of addresses and the table from its pages to allocations.
class AddressRange {
 public:
  AddressRange(std::byte* base, size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  /// A place for `bytes` that follows the last one given, going round at the end of the range; null
  /// where no gap is left.
  std::byte* place(Allocation& allocation);
  /// Keeps the table's entries, so that the freed allocation is still found there.
  void release(Allocation& allocation);

  Allocation* find(size_t offset) const noexcept {
    return table_[offset / kPageBytes].load(std::memory_order_acquire);
  }
  Allocation* previous(size_t offset) const noexcept;

 private:
  std::byte* find_gap(size_t bytes);
  void forget_freed(const std::byte* first, const std::byte* last);
  void trim_quarantine();

  std::byte* base_;
  size_t bytes_;
  std::atomic<Allocation*>* table_;
  std::mutex mutex_;
  std::byte* cursor_;
  std::map<std::byte*, Allocation*> live_;
  std::deque<Allocation*> quarantine_;  // freed, still filled with 0xff
  size_t quarantine_bytes_ = 0;
};

/// All ranges: one for each device, and the last for pinned host memory. Made at the first use and
/// never destroyed.
class AddressSpace {
 public:
  static AddressSpace& get();
  /// The range's number, devices first; -1 outside.
  int range_of(const void* address) const noexcept {
    const size_t offset = static_cast<size_t>(static_cast<const std::byte*>(address) - base_);
    return offset < total_ ? static_cast<int>(offset / range_bytes_) : -1;
  }
  size_t offset_in_range(const void* address) const noexcept {
    return static_cast<size_t>(static_cast<const std::byte*>(address) - base_) % range_bytes_;
  }
  AddressRange& range(int number) { return *ranges_[number]; }

 private:
  AddressSpace();
  std::byte* base_ = nullptr;
  size_t range_bytes_ = 0;
  size_t total_ = 0;
  AddressRange* ranges_[kMaxDevices + 1] = {};
};

}  // namespace cudasim
