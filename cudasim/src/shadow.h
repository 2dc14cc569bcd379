#pragma once

// What the checks remember of an allocation or of a block's shared memory: for each word of four
// bytes its state (addressable, written) and, once races are looked for, who last wrote and read
// it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace cudasim {

/// Who accessed last: 0, or an access packed by races.h. What an earlier launch left is told by its
/// interval's number, so nothing is cleared between launches and cells are reused as they are.
struct AccessCells {
  uint64_t write = 0;
  uint64_t read = 0;      ///< a reader or atomic
  uint64_t far_read = 0;  ///< another, unordered with it; of another warp or block if there is one
  uint64_t narrow = 0;    ///< the latest interval with an access to a part of the word
};

/// Bits 0 to 3 of a word's state say which of its bytes may be accessed, bits 4 to 7 which have
/// been written.
class ShadowMap {
 public:
  ShadowMap(uintptr_t base, size_t bytes);
  ~ShadowMap();
  ShadowMap(const ShadowMap&) = delete;
  ShadowMap& operator=(const ShadowMap&) = delete;

  bool contains(uintptr_t address) const { return address - base_ < bytes_; }
  uintptr_t base() const { return base_; }
  size_t bytes() const { return bytes_; }
  size_t word_of(uintptr_t address) const { return (address - base_) >> 2; }

  uint8_t* state(size_t word) const { return state_ + word; }
  AccessCells& cells(size_t word) {
    AccessCells* cells = words_.load(std::memory_order_acquire);
    return (cells != nullptr ? cells : make_cells(words_, n_words()))[word];
  }
  AccessCells& byte_cells(size_t offset) {
    AccessCells* cells = bytewise_.load(std::memory_order_acquire);
    return (cells != nullptr ? cells : make_cells(bytewise_, 4 * n_words()))[offset];
  }

  /// Sets the state of [address, address + bytes).
  void set(uintptr_t address, size_t bytes, bool addressable, bool written);
  void mark_written(uintptr_t address, size_t bytes);
  /// Takes over which bytes of the source are written.
  void copy_written(uintptr_t address, const ShadowMap& source, uintptr_t source_address,
                    size_t bytes);
  void clear_state(size_t first_bytes);

  std::atomic<uint64_t> untracked_launches{0};  ///< how many it has been told of (checks.cpp)

 private:
  size_t n_words() const { return (bytes_ + 3) / 4; }
  AccessCells* make_cells(std::atomic<AccessCells*>& cells, size_t n);

  uintptr_t base_;
  size_t bytes_;
  uint8_t* state_;
  std::atomic<AccessCells*> words_{nullptr};
  std::atomic<AccessCells*> bytewise_{nullptr};
  std::mutex mutex_;
};

/// The bits of a word's state for `bytes` from `address` on, within that word.
inline uint8_t word_mask(uintptr_t address, size_t bytes) {
  return static_cast<uint8_t>(((1U << bytes) - 1U) << (address & 3U));
}

/// Adds or takes bits of a state that other threads may change too.
inline void add_state(uint8_t* state, unsigned bits) {
  __atomic_fetch_or(state, static_cast<uint8_t>(bits), __ATOMIC_RELAXED);
}
inline void take_state(uint8_t* state, unsigned bits) {
  __atomic_fetch_and(state, static_cast<uint8_t>(~bits), __ATOMIC_RELAXED);
}

}  // namespace cudasim
