#include "heddle/core/rng.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "heddle/core/normal.h"

namespace heddle {
namespace {

uint64_t splitmix64(uint64_t x) {  // Steele, Lea and Flood 2014: every bit depends on every bit
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

struct SeedState {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t streams = 0;
};

SeedState& seed_state() {
  static SeedState state;
  return state;
}

}  // namespace

uint64_t Rng::mix(uint64_t seed, RngPurpose purpose) {
  return splitmix64(splitmix64(seed) ^ static_cast<uint64_t>(purpose));
}

uint32_t Rng::next() {
  if (used_ == 4) {
    words_ = block(next_block_++);
    used_ = 0;
  }
  return words_[static_cast<size_t>(used_++)];
}

uint32_t Rng::next_below(uint32_t bound) {
  HEDDLE_CHECK(bound > 0, "next_below: bound is 0, expected at least 1");
  const uint32_t reject_below = (0U - bound) % bound;  // 2^32 mod bound
  for (;;) {
    const uint64_t product = uint64_t{next()} * bound;
    if (static_cast<uint32_t>(product) >= reject_below) return static_cast<uint32_t>(product >> 32);
  }
}

float Rng::next_uniform() { return uniform_from_bits(next()); }

float Rng::next_normal() {
  const uint32_t a = next();
  const uint32_t b = next();
  return normal_from_bits(a, b);
}

bool Rng::next_bernoulli(float probability) { return next_uniform() < probability; }

std::vector<int64_t> permutation(const Rng& rng, int64_t n) {
  HEDDLE_CHECK(n >= 0 && n <= UINT32_MAX, "permutation: n is {}, expected 0 to 2^32 - 1", n);
  std::vector<std::pair<uint64_t, int64_t>> keyed(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) keyed[static_cast<size_t>(i)] = {permutation_key(rng, i), i};
  std::sort(keyed.begin(), keyed.end());
  std::vector<int64_t> order(keyed.size());
  std::transform(keyed.begin(), keyed.end(), order.begin(),
                 [](const auto& pair) { return pair.second; });
  return order;
}

void manual_seed(uint64_t seed) {
  const std::lock_guard lock(seed_state().mutex);
  seed_state().seed = seed;
  seed_state().streams = 0;
}

uint64_t initial_seed() {
  const std::lock_guard lock(seed_state().mutex);
  return seed_state().seed;
}

Rng next_init_stream() {
  const std::lock_guard lock(seed_state().mutex);
  return Rng(seed_state().seed, RngPurpose::kInit, seed_state().streams++);
}

}  // namespace heddle
