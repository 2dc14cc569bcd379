#include "races.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace cudasim {

namespace {

uintptr_t first_code() {
  uintptr_t found = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
            *static_cast<uintptr_t*>(result) = info->dlpi_addr + segment.p_vaddr;
            return 1;
          }
        }
        return 0;
      },
      &found);
  return found;
}

struct Releases {
  std::mutex mutex;
  std::atomic<bool> any_fence{false};  // in the launches that run
  // By address of the atomic: for each block the interval before which all is handed on.
  std::unordered_map<uintptr_t, std::unordered_map<uint32_t, uint32_t>> by_address;
};

Releases& releases() {
  static auto* all = new Releases;
  return *all;
}

}  // namespace

const uintptr_t code_base = first_code();

IntervalOwners& IntervalOwners::get() {
  static auto* owners = new IntervalOwners;
  return *owners;
}

IntervalOwners::IntervalOwners() {
  const size_t bytes = (size_t{kMaxInterval} + 1) / kIntervalsPerTake * sizeof(uint32_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  owners_ = static_cast<uint32_t*>(memory);
}

uint32_t IntervalOwners::take(uint32_t block) {
  if (next_.load(std::memory_order_relaxed) > kMaxInterval - 1024 * kIntervalsPerTake) return 0;
  const uint32_t first = next_.fetch_add(kIntervalsPerTake);
  owners_[first / kIntervalsPerTake] = block;
  return first;
}

uint32_t BlockOrdering::new_interval() {
  if (next_ == end_) {
    next_ = owners_.take(block_);
    if (next_ == 0) {
      exhausted_ = true;
      next_ = end_ = 0;
      return kMaxInterval;
    }
    end_ = next_ + kIntervalsPerTake;
  }
  return next_++;
}

void BlockOrdering::begin_block(uint32_t block) {
  block_ = block;
  next_ = end_ = 0;
  fenced_ = false;
  acquired_.clear();
  barrier();
  block_first_ = barrier_;
}

void BlockOrdering::barrier() {
  barrier_ = new_interval();
  std::fill(std::begin(warps_), std::end(warps_), barrier_);
  for (auto& clocks : clocks_) {
    if (clocks != nullptr) clocks.reset();
  }
}

void BlockOrdering::warp_sync(int warp, unsigned mask, unsigned alive) {
  const uint32_t interval = new_interval();
  std::unique_ptr<WarpClocks>& clocks = clocks_[warp];
  if ((alive & ~mask) == 0) {
    warps_[warp] = interval;
    clocks.reset();
    return;
  }
  if (clocks == nullptr) {
    clocks = std::make_unique<WarpClocks>();
    std::fill_n(clocks->interval, 32, warps_[warp]);
    std::fill_n(&clocks->seen[0][0], 32 * 32, warps_[warp]);
  }
  uint32_t seen[32] = {};
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32 && (mask >> i & 1) != 0; ++j)
      seen[j] = std::max(seen[j], clocks->seen[i][j]);
  }
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    clocks->interval[i] = interval;
    for (int j = 0; j < 32; ++j) clocks->seen[i][j] = (mask >> j & 1) != 0 ? interval : seen[j];
  }
}

void BlockOrdering::fence() {
  fenced_ = true;
  releases().any_fence.store(true, std::memory_order_relaxed);
}

void BlockOrdering::atomic(uintptr_t address) {
  Releases& all = releases();
  if (!all.any_fence.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(all.mutex);
  auto& handed_on = all.by_address[address];
  for (const auto& [block, interval] : handed_on) {
    if (block != block_) acquired_[block] = std::max(acquired_[block], interval);
  }
  if (!fenced_) return;
  for (const auto& [block, interval] : acquired_) {
    handed_on[block] = std::max(handed_on[block], interval);
  }
  handed_on[block_] = std::max(handed_on[block_], next_);
}

void forget_releases() {
  Releases& all = releases();
  const std::lock_guard lock(all.mutex);
  all.any_fence = false;
  all.by_address.clear();
}

}  // namespace cudasim
