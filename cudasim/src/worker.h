#pragma once

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "lane.h"

namespace cudasim {

enum class Collective { kSyncWarp, kShuffle, kBallot, kMatch, kReduce, kExchange };

/// Runs blocks on one host thread, one after another: a fiber for each thread of the block,
/// switched at barriers and collectives. A thread that ends without having waited hands its stack
/// on, so a kernel without barriers is a plain loop.
class Worker {
 public:
  /// This host thread's.
  static Worker& here();

  explicit Worker(int number);
  ~Worker();

  /// Runs the block of that linear index; false when the launch must end.
  bool run(const Launch& launch, int64_t linear);
  std::string take_message() { return std::move(message_); }
  bool told() const { return told_; }

  // Called by the running thread.
  void barrier(int predicate, const void* pc);
  Exchange& collect(unsigned mask, Collective kind, const void* mine, size_t bytes, bool vote,
                    const void* pc);
  void yield();
  void* shared_variable(const SharedSite& site);
  [[noreturn]] void fail(std::string message, bool told = false);

 private:
  static void lane_main();
  void prepare(const Launch& launch, int64_t linear);
  void prepare_lanes(dim3 size);
  void prepare_warps();
  void prepare_shared(const Launch& launch);
  char* declare_shared(const SharedSite* site, size_t bytes);
  Lane* next();
  bool wake_sleepers();
  void make_ready(int warp, unsigned lanes);
  void suspend();
  void bind(Lane& lane, Fiber* fiber);
  void leave(Fiber& from, Lane& to);
  void run_lane();
  void finish_lane(Lane& lane);
  void release_barrier();
  Exchange& join(Warp& warp, unsigned mask, Collective kind, size_t bytes);
  void complete(Exchange& exchange, Warp& warp, Lane& last);
  void drop_exchange(Lane& lane);
  Exchange* new_exchange();
  [[noreturn]] void to_host(Fiber& from);
  void clean_up();
  std::string stuck_message() const;

  FiberPool fibers_;
  Block block_;
  std::vector<Lane> lanes_;
  char* arena_ = nullptr;
  int warp_ = 0;  ///< whose lanes run now
  bool divergence_told_ = false;
  bool failed_ = false;
  bool stuck_ = false;
  bool told_ = false;
  std::string message_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<Exchange*> free_exchanges_;
};

// What each switch goes through, inlined into the calls that kernels make: every frame less is a
// cache line less a thread.

inline Lane* Worker::next() {
  Block& block = block_;
  if (block.ready_warps == 0 && !wake_sleepers()) return nullptr;
  if ((block.ready_warps >> warp_ & 1U) == 0) {
    const uint32_t later = block.ready_warps & (~0U << warp_);
    warp_ = std::countr_zero(later != 0 ? later : block.ready_warps);
  }
  unsigned& ready = block.warps[warp_].ready;
  const int lane = std::countr_zero(ready);
  ready &= ready - 1;
  if (ready == 0) block.ready_warps &= ~(1U << warp_);
  return &block.lanes[warp_ * 32 + lane];
}

inline void Worker::make_ready(int warp, unsigned lanes) {
  if (lanes == 0) return;
  block_.warps[warp].ready |= lanes;
  block_.ready_warps |= 1U << warp;
}

inline void Worker::bind(Lane& lane, Fiber* fiber) {
  lane.fiber = fiber;
  lane.stack_low = fiber->low;
  lane.stack_high = fiber->high;
}

/// Goes on with `to`; returns when `from` is switched to again.
inline void Worker::leave(Fiber& from, Lane& to) {
  if (to.fiber == nullptr) bind(to, fibers_.take());
  current_lane = &to;
  fibers_.switch_to(from, *to.fiber);
}

inline void Worker::suspend() {
  Lane* self = current_lane;
  Lane* to = next();
  if (to == self) return;
  if (to == nullptr) {
    stuck_ = true;
    to_host(*self->fiber);
  }
  leave(*self->fiber, *to);
}

}  // namespace cudasim
