#include "kernel_accesses.h"

#include <bit>
#include <cstdlib>
#include <new>
#include <vector>

#include "happens_before.h"

namespace cudasim {
namespace {

// A kernel that touches more pieces of a buffer than these is noted with the gaps between the
// nearest closed.
constexpr size_t kMaxRanges = 256;

struct Range {
  size_t first, last;  ///< words
};

/// Runs of set bits.
std::vector<Range> ranges_of(const std::atomic<uint64_t>* cells, size_t n_cells) {
  std::vector<Range> ranges;
  for (size_t cell = 0; cell < n_cells; ++cell) {
    uint64_t bits = cells[cell].load(std::memory_order_relaxed);
    size_t at = cell * 64;
    while (bits != 0) {
      const int zeros = std::countr_zero(bits);
      at += static_cast<size_t>(zeros);
      bits >>= zeros;
      const int ones = std::countr_one(bits);
      if (!ranges.empty() && ranges.back().last == at) {
        ranges.back().last += static_cast<size_t>(ones);
      } else {
        ranges.push_back({at, at + static_cast<size_t>(ones)});
      }
      at += static_cast<size_t>(ones);
      bits = ones == 64 ? 0 : bits >> ones;
    }
  }
  return ranges;
}

/// Doubles the gap that counts as touched until few enough are left.
void close_gaps(std::vector<Range>& ranges) {
  for (size_t gap = 4; ranges.size() > kMaxRanges; gap *= 2) {
    size_t kept = 0;
    for (const Range& range : ranges) {
      if (kept > 0 && range.first - ranges[kept - 1].last <= gap) {
        ranges[kept - 1].last = range.last;
      } else {
        ranges[kept++] = range;
      }
    }
    ranges.resize(kept);
  }
}

std::atomic<uint64_t>* make_cells(size_t count) {
  // Zero pages of the system, touched where the kernel touches: most of a sparse mapping never is.
  void* memory = std::calloc(count, sizeof(std::atomic<uint64_t>));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::atomic<uint64_t>*>(memory);
}

}  // namespace

UsedWords::UsedWords(const Allocation& allocation)
    : allocation_(allocation),
      base_(allocation.base),
      read_(make_cells(n_cells())),
      written_(make_cells(n_cells())) {}

UsedWords::~UsedWords() {
  std::free(read_);
  std::free(written_);
}

void UsedWords::report(const Operation& operation) const {
  report(operation, read_, false);
  report(operation, written_, true);
}

void UsedWords::report(const Operation& operation, const std::atomic<uint64_t>* words,
                       bool writes) const {
  std::vector<Range> ranges = ranges_of(words, n_cells());
  close_gaps(ranges);
  for (const Range& range : ranges) {
    note_use(operation, allocation_, range.first * 4, range.last * 4,
             writes ? Use::kWrite : Use::kRead);
  }
}

UsedWords& KernelAccesses::of(const Allocation& allocation) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<UsedWords>& words = by_allocation_[allocation.id];
  if (words == nullptr) words = std::make_unique<UsedWords>(allocation);
  return *words;
}

void KernelAccesses::report(const Operation& operation) const {
  for (const auto& [id, words] : by_allocation_) words->report(operation);
}

}  // namespace cudasim
