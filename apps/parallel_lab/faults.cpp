#include "heddle/apps/parallel_lab/faults.h"

#include <algorithm>
#include <thread>

#include "heddle/apps/parallel_lab/machine.h"
#include "heddle/core/trace.h"

namespace heddle::lab {
namespace {

/// Virtual devices take as long as the simulation does, which is no time to multiply.
constexpr double kLongestVirtualSleep = 1e-3;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

FaultInjection::FaultInjection(DataParallel& parallel, const Faults& faults) {
  if (faults.slow_replica >= 0) slow_down(parallel, faults.slow_replica, faults.slow_factor);
  if (faults.late_replica >= 0 && !devices_are_virtual())
    delay(parallel, faults.late_replica, faults.late_seconds);
  if (faults.lost_replica >= 0) lose(parallel, faults.lost_replica);
}

void FaultInjection::begin_step(bool lose_replica) {
  state_->loses = lose_replica;
  state_->mark = Clock::now();
}

double FaultInjection::slept_seconds() const { return state_->slept; }

void FaultInjection::sleep(State& state, double seconds) {
  if (seconds <= 0) return;
  const TraceSpan span("injected delay", "fault");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  state.slept.fetch_add(seconds);
}

/// After each gradient it sleeps in proportion to what it has computed since the one before.
void FaultInjection::slow_down(DataParallel& parallel, int replica, double factor) {
  const Device device = parallel.devices()[static_cast<size_t>(replica)];
  for (const Tensor& parameter : parallel.replica(replica).parameters())
    parameter.register_post_accumulate_grad_hook([state = state_, device, factor](const Tensor&) {
      wait_for_stream(device);
      double seconds = (factor - 1) * seconds_since(state->mark);
      if (devices_are_virtual()) seconds = std::min(seconds, kLongestVirtualSleep);
      sleep(*state, seconds);
      state->mark = Clock::now();
    });
}

/// What it hands to the exchange after its first gradient, that of the last parameter, is late.
void FaultInjection::delay(DataParallel& parallel, int replica, double seconds) {
  const Tensor last = parallel.replica(replica).parameters().back();
  last.register_post_accumulate_grad_hook(
      [state = state_, seconds](const Tensor&) { sleep(*state, seconds); });
}

void FaultInjection::lose(DataParallel& parallel, int replica) {
  const std::vector<Tensor> parameters = parallel.replica(replica).parameters();
  parameters[parameters.size() / 2].register_post_accumulate_grad_hook(
      [state = state_](const Tensor& parameter) {
        if (state->loses) fail("lost in the backward pass, at {}", parameter.name());
      });
}

}  // namespace heddle::lab
