#pragma once

namespace heddle {

/// How many threads make batches for a loader, and how many batches they make ahead of the caller.
struct LoaderSize {
  int workers = 0;
  int prefetch = 0;
  bool operator==(const LoaderSize&) const = default;
};

/// What a loader measured over some batches. Units: seconds.
struct LoaderWaits {
  int batches = 0;
  double elapsed = 0.0;
  double waited = 0.0;  ///< The caller, for batches that were not ready.
  double worked = 0.0;  ///< All workers together.
};

namespace detail {

/// What a LoaderTuner may choose.
struct LoaderLimits {
  LoaderSize lowest, highest;
  LoaderSize clamp(LoaderSize size) const;
  bool is_fixed() const { return lowest == highest; }
};

/// Chooses a loader's size from what was waited for. Where the caller waits, there is one worker
/// more (from the third on, half as many more) if all have been busy, else one batch more ahead; if
/// that does not make batches come faster, it is taken back, and not tried again for a while. Where
/// the caller does not wait and one worker less would be enough, there is one less.
class LoaderTuner {
 public:
  LoaderTuner(LoaderSize start, const LoaderLimits& limits);

  LoaderSize size() const { return size_; }
  /// The size after a window that was measured with size().
  LoaderSize next(const LoaderWaits& waits);
  /// Takes this size, within the limits.
  void set(LoaderSize size) { size_ = limits_.clamp(size); }

 private:
  LoaderSize larger(const LoaderWaits& waits) const;
  LoaderSize smaller(const LoaderWaits& waits) const;

  LoaderLimits limits_;
  LoaderSize size_;
  LoaderSize before_;  // a growth that is on trial
  bool on_trial_ = false;
  double rate_before_ = 0.0;  // batches a second
  int rest_ = 0;              // windows until the next growth
  int next_rest_;
};

}  // namespace detail
}  // namespace heddle
