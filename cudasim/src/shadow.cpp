#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <new>
#include <vector>

namespace cudasim {

namespace {

constexpr size_t kSmallestBlock = size_t{16} << 10;
constexpr size_t kPage = 4096;
constexpr size_t kReturnedStates = size_t{16} << 20;
constexpr size_t kKeptBytes = size_t{512} << 20;

/// Zero pages of the system, kept by size when they come back, and handed out again as they are.
class Blocks {
 public:
  void* take(size_t bytes) {
    const size_t size = std::bit_ceil(std::max(bytes, kSmallestBlock));
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& kept = kept_[size];
      if (!kept.empty()) {
        void* block = kept.back();
        kept.pop_back();
        kept_bytes_ -= size;
        return block;
      }
    }
    void* block = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    return block;
  }

  void give_back(void* block, size_t bytes) {
    if (block == nullptr) return;
    const size_t size = std::bit_ceil(std::max(bytes, kSmallestBlock));
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + size > kKeptBytes) {
      munmap(block, size);
      return;
    }
    kept_[size].push_back(block);
    kept_bytes_ += size;
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;
  size_t kept_bytes_ = 0;
};

// Apart, because old cells are harmless as cells only. Leaked: maps may outlive statics.
Blocks& state_blocks() {
  static auto* blocks = new Blocks;
  return *blocks;
}

Blocks& cell_blocks() {
  static auto* blocks = new Blocks;
  return *blocks;
}

// Calls `part` for the words that [address, address + bytes) covers in part, `whole` for the
// others.
template <class Part, class Whole>
void each_word(uintptr_t offset, size_t bytes, Part&& part, Whole&& whole) {
  if (offset % 4 != 0) {
    const size_t n = std::min(bytes, 4 - offset % 4);
    part(offset / 4, word_mask(offset, n));
    offset += n;
    bytes -= n;
  }
  if (bytes >= 4) whole(offset / 4, bytes / 4);
  if (bytes % 4 != 0) part((offset + bytes) / 4, word_mask(0, bytes % 4));
}

}  // namespace

ShadowMap::ShadowMap(uintptr_t base, size_t bytes)
    : base_(base),
      bytes_(bytes),
      state_(static_cast<uint8_t*>(state_blocks().take((bytes + 3) / 4))) {
  clear_state(bytes);
}

ShadowMap::~ShadowMap() {
  state_blocks().give_back(state_, n_words());
  cell_blocks().give_back(words_.load(), n_words() * sizeof(AccessCells));
  cell_blocks().give_back(bytewise_.load(), 4 * n_words() * sizeof(AccessCells));
}

AccessCells* ShadowMap::make_cells(std::atomic<AccessCells*>& cells, size_t n) {
  const std::lock_guard lock(mutex_);
  AccessCells* made = cells.load();
  if (made == nullptr) {
    made = static_cast<AccessCells*>(cell_blocks().take(n * sizeof(AccessCells)));
    cells.store(made, std::memory_order_release);
  }
  return made;
}

void ShadowMap::set(uintptr_t address, size_t bytes, bool addressable, bool written) {
  const auto bits = static_cast<uint8_t>((addressable ? 0x0f : 0) | (written ? 0xf0 : 0));
  each_word(
      address - base_, bytes,
      [&](size_t word, uint8_t mask) {
        const auto both = static_cast<uint8_t>(mask | mask << 4);
        take_state(state_ + word, both);
        add_state(state_ + word, bits & both);
      },
      [&](size_t word, size_t n) { std::memset(state_ + word, bits, n); });
}

void ShadowMap::mark_written(uintptr_t address, size_t bytes) {
  each_word(
      address - base_, bytes,
      [&](size_t word, uint8_t mask) { add_state(state_ + word, mask * 0x10U); },
      [&](size_t word, size_t n) { std::memset(state_ + word, 0xff, n); });
}

void ShadowMap::copy_written(uintptr_t address, const ShadowMap& source, uintptr_t source_address,
                             size_t bytes) {
  const size_t to = address - base_;
  const size_t from = source_address - source.base_;
  if (to % 4 == 0 && from % 4 == 0) {
    std::memcpy(state_ + to / 4, source.state_ + from / 4, bytes / 4);
  }
  const size_t done = to % 4 == 0 && from % 4 == 0 ? bytes / 4 * 4 : 0;
  for (size_t i = done; i < bytes; ++i) {
    const bool written = (source.state_[(from + i) / 4] >> (4 + (from + i) % 4) & 1) != 0;
    const auto bit = 0x10U << ((to + i) % 4);
    written ? add_state(state_ + (to + i) / 4, bit) : take_state(state_ + (to + i) / 4, bit);
  }
}

void ShadowMap::clear_state(size_t first_bytes) {
  const size_t n = (std::min(first_bytes, bytes_) + 3) / 4;
  if (n >= kReturnedStates) {  // a sparse mapping stays one
    madvise(state_, n / kPage * kPage, MADV_DONTNEED);
    std::memset(state_ + n / kPage * kPage, 0, n % kPage);
  } else {
    std::memset(state_, 0, n);
  }
}

}  // namespace cudasim
