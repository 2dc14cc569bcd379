#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "heddle/core/dtype.h"

namespace heddle {

/// Philox4x32-10: four random words as a pure function of a counter and a key, so that no thread
/// owns a state and any element can be drawn alone. Source: Salmon et al., "Parallel random
/// numbers: as easy as 1, 2, 3", SC'11; test vectors of Random123.
HEDDLE_INLINE std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                                 std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// Uniform in [0, 1) with 24 bits: the same float on every device.
HEDDLE_INLINE float uniform_from_bits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

/// What a stream of draws is for. Part of the key, so that two uses never see the same numbers.
enum class RngPurpose : uint32_t { kInit = 1, kShuffle, kAugment, kDropout, kSynthetic, kUser };

/// A stream of random numbers named by (seed, purpose, a, b), for example (seed, kAugment, epoch,
/// sample). Draw i is a function of the name and i alone. Cheap to make.
class Rng {
 public:
  Rng(uint64_t seed, RngPurpose purpose, uint64_t a = 0, uint32_t b = 0)
      : seed_(seed), purpose_(purpose), a_(a), b_(b) {}

  /// Words 4*block .. 4*block+3 of the stream.
  HEDDLE_INLINE std::array<uint32_t, 4> block(uint32_t index) const {
    const uint64_t key = key_;
    return philox4x32({index, b_, static_cast<uint32_t>(a_), static_cast<uint32_t>(a_ >> 32)},
                      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  }

  /// The stream from its beginning whose `a` is greater by n.
  HEDDLE_INLINE Rng after(int64_t n) const {
    Rng later = *this;
    later.a_ += static_cast<uint64_t>(n);
    later.next_block_ = 0;
    later.used_ = 4;
    return later;
  }

  uint32_t next();                      ///< The next word of the stream.
  uint32_t next_below(uint32_t bound);  ///< Uniform in [0, bound), without bias. bound > 0.
  float next_uniform();                 ///< [0, 1)
  float next_normal();                  ///< Mean 0, variance 1; see core/normal.h.
  bool next_bernoulli(float probability);

 private:
  uint64_t seed_;
  RngPurpose purpose_;
  uint64_t a_;
  uint32_t b_;
  uint64_t key_ = mix(seed_, purpose_);
  uint32_t next_block_ = 0;
  int used_ = 4;
  std::array<uint32_t, 4> words_{};

  static uint64_t mix(uint64_t seed, RngPurpose purpose);
};

/// What element i is sorted by in a permutation: words 2i and 2i + 1 of the stream. i < 2^33.
HEDDLE_INLINE uint64_t permutation_key(const Rng& rng, int64_t i) {
  const auto words = rng.block(static_cast<uint32_t>(i / 2));
  return i % 2 == 0 ? uint64_t{words[0]} << 32 | words[1] : uint64_t{words[2]} << 32 | words[3];
}

/// 0 .. n-1 by ascending key, equal keys (two in 2^64) by number: a random order that depends on
/// the stream alone, and that a device can sort too (the op randperm).
std::vector<int64_t> permutation(const Rng& rng, int64_t n);

/// The seed that modules take their initial values and dropout masks from; PyTorch's manual_seed.
/// Each call of next_init_stream() gives another stream of it.
void manual_seed(uint64_t seed);
uint64_t initial_seed();
Rng next_init_stream();

}  // namespace heddle
