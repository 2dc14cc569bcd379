#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <unordered_set>

#include "cudasim/control.h"
#include "operation.h"

namespace cudasim {

/// Guards all state of the runtime; let go while an operation runs.
using Lock = std::unique_lock<std::mutex>;

/// Runs operations on the host threads that call the runtime, each after those it waits for.
class Scheduler {
 public:
  void set(Schedule schedule, uint64_t seed);

  /// Takes an operation over; runs what the schedule says should run now.
  void submit(Lock& lock, OperationPtr operation, std::span<const OperationPtr> waits_for);

  /// Runs or awaits what is needed until all of them are done.
  void finish(Lock& lock, std::span<const OperationPtr> operations);

  /// Whether it is done, when the host asks without waiting: kLatest and kRandom let it ask in vain
  /// at times, but not for ever.
  bool query(Lock& lock, const OperationPtr& operation);

  /// Runs everything.
  void drain(Lock& lock);
  size_t n_pending() const { return n_pending_; }

 private:
  using Needed = std::unordered_set<const Operation*>;
  OperationPtr pick(const Needed* needed);
  void run(Lock& lock, const OperationPtr& operation);
  void complete(const OperationPtr& operation);
  void run_ready(Lock& lock);
  void collect(const OperationPtr& operation, Needed& needed) const;
  void call_host_functions();

  Schedule schedule_ = Schedule::kEager;
  std::mt19937_64 random_{1};
  uint64_t n_submitted_ = 0;
  size_t n_pending_ = 0;
  std::map<uint64_t, OperationPtr> ready_;
  std::unordered_set<const Operation*> asked_in_vain_;
  std::condition_variable changed_;
  std::mutex one_at_a_time_;  // operations of different host threads do not run side by side
  // Host functions run on a thread of their own, as under CUDA: the caller may hold a lock of
  // theirs.
  std::condition_variable host_work_;
  std::vector<OperationPtr> host_functions_;
  bool host_thread_started_ = false;
};

}  // namespace cudasim
