#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/rng.h"

namespace heddle {

/// A place in the stream of batches: the batch that comes next. Kept in checkpoints.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

/// The order of the samples in an epoch, a function of (seed, epoch) alone: continuing from a
/// position needs no other state.
class Sampler {
 public:
  /// Samples 0 .. n_samples-1, in this order or shuffled anew each epoch.
  Sampler(int64_t n_samples, bool shuffle, uint64_t seed);

  int64_t n_samples() const { return n_samples_; }
  bool is_shuffled() const { return shuffle_; }
  std::vector<int64_t> order(int64_t epoch) const;
  /// Where shuffled, the order is permutation(stream(epoch), n_samples()).
  Rng stream(int64_t epoch) const;

 private:
  int64_t n_samples_;
  bool shuffle_;
  uint64_t seed_;
};

}  // namespace heddle
