#include "heddle/data/sampler.h"

#include <numeric>

#include "heddle/core/error.h"

namespace heddle {

Sampler::Sampler(int64_t n_samples, bool shuffle, uint64_t seed)
    : n_samples_(n_samples), shuffle_(shuffle), seed_(seed) {
  HEDDLE_CHECK(n_samples >= 0, "sampler: {} samples, expected 0 or more", n_samples);
}

Rng Sampler::stream(int64_t epoch) const {
  return Rng(seed_, RngPurpose::kShuffle, static_cast<uint64_t>(epoch));
}

std::vector<int64_t> Sampler::order(int64_t epoch) const {
  if (shuffle_) return permutation(stream(epoch), n_samples_);
  std::vector<int64_t> indices(static_cast<size_t>(n_samples_));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

}  // namespace heddle
