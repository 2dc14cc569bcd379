#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "heddle/parallel/data_parallel.h"

namespace heddle::lab {

/// What goes wrong, by replica; -1: nothing. Units: seconds.
struct Faults {
  int slow_replica = -1;
  double slow_factor = 2;  ///< By which it computes slower.
  int lost_replica = -1;   ///< It throws halfway through the backward pass of the last step.
  int late_replica = -1;
  double late_seconds = 0;

  bool any() const { return slow_replica >= 0 || lost_replica >= 0 || late_replica >= 0; }
};

/// Lets the faults happen to the replicas of `parallel`, in hooks of their parameters, which run on
/// the replicas' own threads while backward goes on.
class FaultInjection {
 public:
  FaultInjection(DataParallel& parallel, const Faults& faults);

  void begin_step(bool lose_replica);
  /// That the slow replica and the late one have slept.
  double slept_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::atomic<bool> loses{false};
    std::atomic<double> slept{0};
    std::atomic<Clock::time_point> mark;  // since when the slow replica has computed
  };

  static void sleep(State& state, double seconds);
  void slow_down(DataParallel& parallel, int replica, double factor);
  void delay(DataParallel& parallel, int replica, double seconds);
  void lose(DataParallel& parallel, int replica);

  std::shared_ptr<State> state_ = std::make_shared<State>();  // hooks live as long as the model
};

}  // namespace heddle::lab
