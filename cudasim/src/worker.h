#pragma once

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

  // Called by the running thread.
  void barrier(int predicate, const void* pc);
  Exchange& collect(unsigned mask, Collective kind, const void* mine, size_t bytes, bool vote,
                    const void* pc);
  void yield();
  void* shared_variable(const SharedSite& site);
  [[noreturn]] void fail(std::string message);

 private:
  static void lane_main();
  void prepare(const Launch& launch, int64_t linear);
  void prepare_shared(const Launch& launch);
  char* declare_shared(const SharedSite* site, size_t bytes);
  Lane* next();
  void make_ready(int warp, unsigned lanes);
  void suspend();
  void bind(Lane& lane, Fiber* fiber);
  void leave(Fiber& from, Lane& to);
  void run_lane();
  void finish_lane(Lane& lane);
  void release_barrier();
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
  std::string message_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<Exchange*> free_exchanges_;
};

}  // namespace cudasim
