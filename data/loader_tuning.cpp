#include "heddle/data/loader_tuning.h"

#include <algorithm>

namespace heddle::detail {
namespace {

constexpr double kWaits = 0.05;       // of the time: the caller waits
constexpr double kNeverWaits = 0.01;  // less: it does not
constexpr double kBusy = 0.80;        // of the workers' time: they are the ones that hold it up
constexpr double kEnough = 0.60;      // less, of one worker fewer: that would do
constexpr double kFaster = 1.02;      // batches a second: growing was worth it
constexpr int kFirstRest = 4;
constexpr int kLongestRest = 256;

}  // namespace

LoaderSize LoaderLimits::clamp(LoaderSize size) const {
  return {std::clamp(size.workers, lowest.workers, highest.workers),
          std::clamp(size.prefetch, lowest.prefetch, highest.prefetch)};
}

LoaderTuner::LoaderTuner(LoaderSize start, const LoaderLimits& limits)
    : limits_(limits), size_(limits.clamp(start)), next_rest_(kFirstRest) {}

LoaderSize LoaderTuner::next(const LoaderWaits& waits) {
  if (limits_.is_fixed() || waits.batches <= 0 || waits.elapsed <= 0) return size_;
  const double rate = waits.batches / waits.elapsed;
  if (on_trial_) {
    on_trial_ = false;
    if (rate < rate_before_ * kFaster) {
      rest_ = next_rest_;
      next_rest_ = std::min(2 * next_rest_, kLongestRest);
      return size_ = before_;
    }
    next_rest_ = kFirstRest;
  }
  if (rest_ > 0) --rest_;
  if (waits.waited < kNeverWaits * waits.elapsed) return size_ = smaller(waits);
  if (waits.waited < kWaits * waits.elapsed || rest_ > 0) return size_;
  const LoaderSize wanted = larger(waits);
  if (wanted == size_) return size_;
  before_ = size_;
  rate_before_ = rate;
  on_trial_ = true;
  return size_ = wanted;
}

LoaderSize LoaderTuner::larger(const LoaderWaits& waits) const {
  LoaderSize size = size_;
  if (waits.worked >= kBusy * waits.elapsed * size.workers) {
    size.workers += std::max(1, size.workers / 2);
    size.workers = std::min(size.workers, limits_.highest.workers);
    size.prefetch = std::max(size.prefetch, size.workers + 1);
  } else {
    ++size.prefetch;
  }
  return limits_.clamp(size);
}

LoaderSize LoaderTuner::smaller(const LoaderWaits& waits) const {
  const int fewer = size_.workers - 1;
  if (fewer < 1 || waits.worked > kEnough * waits.elapsed * fewer) return size_;
  return limits_.clamp({fewer, fewer + 1});
}

}  // namespace heddle::detail
