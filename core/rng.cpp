#include "heddle/core/rng.h"

#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>

namespace heddle {
namespace {

uint64_t splitmix64(uint64_t x) {  // Steele, Lea and Flood 2014: every bit depends on every bit
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

template <size_t N>
float polynomial(const float (&coefficients)[N], float x) {
  float sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

/// Natural logarithm of a positive normal float. ln(1 + f) / f as a Chebyshev interpolant of degree
/// 10 on [sqrt(1/2) - 1, sqrt(2) - 1].
float log_of(float x) {
  constexpr float kLog[] = {1.0F,
                            -0.5F,
                            0.33333301544189453F,
                            -0.25000062584877014F,
                            0.20002534985542297F,
                            -0.16666555404663086F,
                            0.14212290942668915F,
                            -0.12420821189880371F,
                            0.11945877969264984F,
                            -0.11620648205280304F,
                            0.06572327017784119F};
  uint32_t bits = std::bit_cast<uint32_t>(x);
  int exponent = static_cast<int>(bits >> 23) - 127;
  float mantissa = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f800000U);  // [1, 2)
  if (mantissa > 1.41421356F) {
    mantissa *= 0.5F;
    ++exponent;
  }
  const float f = mantissa - 1.0F;
  return std::fma(static_cast<float>(exponent), 0.693147181F, f * polynomial(kLog, f));
}

/// cos(2 pi t) for t in [0, 1): one of two polynomials in t^2 on [-1/8, 1/8] by quadrant.
float cos_of_turn(float t) {
  constexpr float kCos[] = {1.0F, -19.739208221435547F, 64.93931579589844F, -85.4428482055664F,
                            59.22016906738281F};
  constexpr float kSin[] = {6.2831854820251465F, -41.34170150756836F, 81.6052017211914F,
                            -76.69786834716797F, 41.47283172607422F};
  const int quadrant = static_cast<int>(t * 4.0F + 0.5F);
  const float rest = t - static_cast<float>(quadrant) * 0.25F;
  const float square = rest * rest;
  const float cosine = polynomial(kCos, square);
  const float sine = rest * polynomial(kSin, square);
  switch (quadrant & 3) {
    case 0:
      return cosine;
    case 1:
      return -sine;
    case 2:
      return -cosine;
    default:
      return sine;
  }
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

float normal_from_bits(uint32_t a, uint32_t b) {
  const float positive = static_cast<float>((a >> 8) + 1) * 0x1p-24F;  // (0, 1]
  return std::sqrt(-2.0F * log_of(positive)) * cos_of_turn(uniform_from_bits(b));
}

std::vector<int64_t> permutation(Rng rng, int64_t n) {
  HEDDLE_CHECK(n >= 0 && n <= UINT32_MAX, "permutation: n is {}, expected 0 to 2^32 - 1", n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[rng.next_below(static_cast<uint32_t>(i))]);
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
