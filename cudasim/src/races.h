#pragma once

// Which accesses of one launch are unordered. Every block counts intervals: a new one begins at
// each barrier, and for a warp at each __syncwarp. Numbers grow over the whole process, so that
// what an earlier launch or barrier left behind is told by its number alone.
//
// For each word the last writer and two readers are kept (shadow.h). A block's barrier orders all
// that its threads did before; __syncwarp orders the lanes of its mask; launches are ordered; a
// fence and an atomic that another block's atomic follows order two blocks. Atomics do not race
// with each other. Two readers are enough, as long as they are as far from each other as there are
// any: a writer that races with any reader then races with one of these.

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "shadow.h"

namespace cudasim {

/// [interval 30 | thread in block 10 | atomic 1 | code 23]
using PackedAccess = uint64_t;

constexpr uint32_t kMaxInterval = (1U << 30) - 1;
constexpr uint32_t kIntervalsPerTake = 4;

inline uint32_t interval_of(PackedAccess access) { return static_cast<uint32_t>(access >> 34); }
inline uint32_t thread_of(PackedAccess access) { return (access >> 24) & 1023; }
inline bool is_atomic(PackedAccess access) { return (access >> 23 & 1) != 0; }
inline uint32_t code_of(PackedAccess access) { return access & 0x7fffff; }
inline bool same_thread_and_interval(PackedAccess a, PackedAccess b) { return (a ^ b) >> 23 == 0; }

/// The program's first executable segment.
extern const uintptr_t code_base;

/// Calls are five bytes long, so that a fifth of the distance still tells them apart. 0: too far.
inline uint32_t pack_code(uintptr_t return_address) {
  const uintptr_t code = (return_address - code_base) / 5;
  return code <= 0x7fffff ? static_cast<uint32_t>(code) : 0;
}
inline uintptr_t unpack_code(uint32_t code) {
  return code == 0 ? 0 : code_base + uintptr_t{code} * 5;
}

/// Which block of the launch an interval belongs to. Intervals are taken in bundles of 4.
class IntervalOwners {
 public:
  static IntervalOwners& get();
  uint32_t take(uint32_t block);  ///< the first of 4, or 0 when there are none left
  uint32_t next() const { return next_.load(); }
  uint32_t owner(uint32_t interval) const { return owners_[interval / kIntervalsPerTake]; }

 private:
  IntervalOwners();
  uint32_t* owners_;
  std::atomic<uint32_t> next_{kIntervalsPerTake};
};

/// The order of a warp's lanes once __syncwarp was called for some of them only.
struct WarpClocks {
  uint32_t interval[32];  ///< of each lane
  uint32_t seen[32][32];  ///< [i][j]: what lane j did before this interval is ordered before lane i
};

/// What one block knows of order. One per host thread that runs blocks.
class BlockOrdering {
 public:
  void begin_launch(uint32_t first_interval) { launch_first_ = first_interval; }
  void begin_block(uint32_t block);
  void barrier();
  void warp_sync(int warp, unsigned mask, unsigned alive);
  void fence();
  /// An atomic on `address`: hands on what is ordered before it, and takes what others handed on.
  void atomic(uintptr_t address);
  /// Of the last race found: whether the earlier access was a write.
  bool conflict_was_with_write() const { return conflict_was_with_write_; }
  bool exhausted() const { return exhausted_; }

  PackedAccess pack(uint32_t thread, bool atomic, uint32_t code) const {
    const uint32_t warp = thread / 32;
    const WarpClocks* clocks = clocks_[warp].get();
    const uint64_t interval = clocks == nullptr ? warps_[warp] : clocks->interval[thread % 32];
    return interval << 34 | uint64_t{thread} << 24 | uint64_t{atomic} << 23 | code;
  }

  /// Whether `earlier` happened before what `thread` does now.
  template <bool kShared>
  [[gnu::always_inline]] bool ordered(PackedAccess earlier, uint32_t thread) const {
    const uint32_t interval = interval_of(earlier);
    if (interval < (kShared ? barrier_ : launch_first_)) return true;
    if (!kShared) {
      if (!same_block(interval)) return acquired(interval);
      if (interval < barrier_) return true;
    }
    const uint32_t other = thread_of(earlier);
    if (other == thread) return true;
    if (other / 32 != thread / 32) return false;
    const WarpClocks* clocks = clocks_[thread / 32].get();
    return interval <
           (clocks == nullptr ? warps_[thread / 32] : clocks->seen[thread % 32][other % 32]);
  }

  /// Notes an access of one word or byte; returns the access it races with, or 0.
  template <bool kShared>
  PackedAccess read(AccessCells& cells, PackedAccess me) const;
  template <bool kShared>
  PackedAccess write(AccessCells& cells, PackedAccess me) const;
  template <bool kShared>
  PackedAccess atomic_access(AccessCells& cells, PackedAccess me) const;
  /// Compares only: for the cells of a word when a part of it is accessed, and the other way round.
  template <bool kShared>
  PackedAccess conflict(const AccessCells& cells, PackedAccess me, bool is_write) const;

  template <bool kShared>
  uint32_t oldest_of_interest() const {
    return kShared ? barrier_ : launch_first_;
  }
  uint32_t block_of(uint32_t interval) const { return owners_.owner(interval); }

 private:
  bool same_block(uint32_t interval) const {
    return interval >= block_first_ && owners_.owner(interval) == block_;
  }
  bool acquired(uint32_t interval) const {
    if (acquired_.empty()) return false;
    const auto found = acquired_.find(owners_.owner(interval));
    return found != acquired_.end() && interval < found->second;
  }
  template <bool kShared>
  void note_reader(AccessCells& cells, PackedAccess me, uint32_t thread) const;
  template <bool kShared>
  bool farther(PackedAccess read, PackedAccess far_read, PackedAccess me) const;
  uint32_t new_interval();

  IntervalOwners& owners_ = IntervalOwners::get();
  uint32_t launch_first_ = 0;
  uint32_t block_first_ = 0;
  uint32_t barrier_ = 0;  ///< the first interval after the last barrier
  uint32_t next_ = 0, end_ = 0;
  uint32_t block_ = 0;
  bool exhausted_ = false;
  bool fenced_ = false;
  mutable bool conflict_was_with_write_ = false;
  uint32_t warps_[32] = {};  ///< the interval of each warp
  std::unique_ptr<WarpClocks> clocks_[32];
  std::unordered_map<uint32_t, uint32_t>
      acquired_;  ///< block to the interval before which all is ordered
};

/// Forgets what atomics handed on: at the begin of a launch.
void forget_releases();

template <bool kShared>
bool BlockOrdering::farther(PackedAccess read, PackedAccess far_read, PackedAccess me) const {
  if (!kShared) {
    const uint32_t block = block_of(interval_of(read));
    if (block != block_of(interval_of(far_read))) return false;
    if (block != block_) return true;
  }
  const uint32_t warp = thread_of(read) / 32;
  return warp == thread_of(far_read) / 32 && warp != thread_of(me) / 32;
}

template <bool kShared>
void BlockOrdering::note_reader(AccessCells& cells, PackedAccess me, uint32_t thread) const {
  if (ordered<kShared>(cells.read, thread)) {
    cells.read = me;
    if (cells.far_read != 0 && ordered<kShared>(cells.far_read, thread)) cells.far_read = 0;
  } else if (ordered<kShared>(cells.far_read, thread) ||
             farther<kShared>(cells.read, cells.far_read, me)) {
    cells.far_read = me;
  }
}

template <bool kShared>
PackedAccess BlockOrdering::conflict(const AccessCells& cells, PackedAccess me,
                                     bool is_write) const {
  const uint32_t thread = thread_of(me);
  if (!ordered<kShared>(cells.write, thread)) {
    conflict_was_with_write_ = true;
    return cells.write;
  }
  for (const PackedAccess reader : {cells.read, cells.far_read}) {
    const bool matters = is_atomic(me) ? !is_atomic(reader) : is_write || is_atomic(reader);
    if (!matters || ordered<kShared>(reader, thread)) continue;
    conflict_was_with_write_ = false;
    return reader;
  }
  return 0;
}

template <bool kShared>
inline PackedAccess BlockOrdering::read(AccessCells& cells, PackedAccess me) const {
  const uint32_t thread = thread_of(me);
  const uint32_t oldest = oldest_of_interest<kShared>();
  // Nobody but this thread has read it, and nobody has written it.
  if (interval_of(cells.write) < oldest && same_thread_and_interval(cells.read, me)) return 0;
  const PackedAccess race = conflict<kShared>(cells, me, false);
  note_reader<kShared>(cells, me, thread);
  return race;
}

template <bool kShared>
inline PackedAccess BlockOrdering::write(AccessCells& cells, PackedAccess me) const {
  if (same_thread_and_interval(cells.write, me) && (cells.read | cells.far_read) == 0) return 0;
  const PackedAccess race = conflict<kShared>(cells, me, true);
  cells.write = me;
  cells.read = cells.far_read = 0;
  return race;
}

template <bool kShared>
inline PackedAccess BlockOrdering::atomic_access(AccessCells& cells, PackedAccess me) const {
  const PackedAccess race = conflict<kShared>(cells, me, true);
  note_reader<kShared>(cells, me, thread_of(me));
  return race;
}

}  // namespace cudasim
