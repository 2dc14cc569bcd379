#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "memory.h"

namespace cudasim {

struct Operation;

/// The words of one allocation that a kernel reads and writes: a bit for every 4 bytes of each.
class UsedWords {
 public:
  explicit UsedWords(const Allocation& allocation);
  ~UsedWords();
  UsedWords(const UsedWords&) = delete;
  UsedWords& operator=(const UsedWords&) = delete;

  /// An access inside the allocation, on any host thread.
  void note(const void* address, size_t bytes, bool writes) {
    const auto first = static_cast<size_t>(static_cast<const std::byte*>(address) - base_);
    std::atomic<uint64_t>* const words = writes ? written_ : read_;
    const size_t last_word = (first + bytes - 1) / 4;
    for (size_t word = first / 4; word <= last_word; ++word) {
      const uint64_t bit = uint64_t{1} << word % 64;
      std::atomic<uint64_t>& cell = words[word / 64];
      if ((cell.load(std::memory_order_relaxed) & bit) == 0) {
        cell.fetch_or(bit, std::memory_order_relaxed);
      }
    }
  }

  /// Tells the happens-before check, as ranges.
  void report(const Operation& operation) const;

 private:
  size_t n_cells() const { return (allocation_.bytes + 255) / 256; }
  void report(const Operation& operation, const std::atomic<uint64_t>* words, bool writes) const;

  const Allocation& allocation_;
  const std::byte* base_;
  std::atomic<uint64_t>* read_;
  std::atomic<uint64_t>* written_;
};

/// What one launch touches, from the hooks of its accesses.
class KernelAccesses {
 public:
  /// Found once a page by the caller, who keeps it.
  UsedWords& of(const Allocation& allocation);

  void report(const Operation& operation) const;

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<UsedWords>> by_allocation_;  // in order of their numbers
};

}  // namespace cudasim
