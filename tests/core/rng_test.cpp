#include "heddle/core/rng.h"

#include <cmath>
#include <set>

#include "heddle/core/normal.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using Words = std::array<uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives the published values", "[rng]") {
  // kat_vectors of Random123 1.14.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox4x32({f, f, f, f}, {f, f}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("A stream is a function of its name", "[rng]") {
  const auto first = [](Rng rng) { return rng.next(); };
  std::set<uint32_t> values;
  for (const uint64_t seed : {0, 1})
    for (const RngPurpose purpose : {RngPurpose::kInit, RngPurpose::kDropout})
      for (const uint64_t a : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
        for (const uint32_t b : {0U, 1U}) {
          CHECK(first({seed, purpose, a, b}) == first({seed, purpose, a, b}));
          values.insert(first({seed, purpose, a, b}));
        }
  CHECK(values.size() == 24);
}

TEST_CASE("next walks the words of the blocks", "[rng]") {
  Rng rng(3, RngPurpose::kUser, 4, 5);
  for (uint32_t block = 0; block < 3; ++block)
    for (const uint32_t word : rng.block(block)) CHECK(rng.next() == word);
}

TEST_CASE("Uniform numbers fill [0, 1) evenly", "[rng]") {
  Rng rng(1, RngPurpose::kUser);
  constexpr int kDraws = 100000;
  std::array<int, 10> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const float u = rng.next_uniform();
    REQUIRE(u >= 0.0F);
    REQUIRE(u < 1.0F);
    ++counts[static_cast<size_t>(u * 10.0F)];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  CHECK(chi_square < 27.9);  // 9 degrees of freedom, 0.1 %
  CHECK(uniform_from_bits(0xffffffff) == 1.0F - 0x1p-24F);
}

TEST_CASE("next_below has no bias and stays below", "[rng]") {
  Rng rng(2, RngPurpose::kUser);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(rng.next_below(7));
  for (const int count : counts) CHECK(std::abs(count - 10000) < 400);
  CHECK(rng.next_below(1) == 0);
  CHECK_THROWS_WITH(rng.next_below(0), ContainsSubstring("bound is 0"));
}

TEST_CASE("Normal numbers follow the closed form and have the right moments", "[rng]") {
  Rng bits(9, RngPurpose::kUser);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t a = bits.next();
    const uint32_t b = bits.next();
    const double u1 = ((a >> 8) + 1.0) * 0x1p-24;
    const double u2 = (b >> 8) * 0x1p-24;
    const double exact = std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * M_PI * u2);
    const float z = normal_from_bits(a, b);
    REQUIRE(std::abs(z - exact) < 2e-6);
    sum += z;
    squares += double{z} * z;
  }
  CHECK(std::abs(sum / kDraws) < 0.01);
  CHECK(std::abs(squares / kDraws - 1.0) < 0.02);
  CHECK(std::isfinite(normal_from_bits(0, 0)));
  CHECK(normal_from_bits(0xffffffff, 0) == 0.0F);
}

TEST_CASE("Normal numbers have the same bits everywhere", "[rng]") {
  // Frozen from the first version: a change of any of these would change every training.
  Rng rng(42, RngPurpose::kInit);
  uint64_t hash = 1469598103934665603U;
  for (int i = 0; i < 1000; ++i)
    hash = (hash ^ std::bit_cast<uint32_t>(rng.next_normal())) * 1099511628211U;
  CHECK(hash == 0x4f582328a9876005U);
}

TEST_CASE("Bernoulli draws hit their probability", "[rng]") {
  Rng rng(5, RngPurpose::kUser);
  int hits = 0;
  for (int i = 0; i < 50000; ++i) hits += rng.next_bernoulli(0.3F) ? 1 : 0;
  CHECK(std::abs(hits - 15000) < 500);
  CHECK_FALSE(rng.next_bernoulli(0.0F));
  CHECK(rng.next_bernoulli(1.0F));
}

TEST_CASE("A permutation holds each number once and depends on its stream", "[rng]") {
  const auto one = permutation(Rng(1, RngPurpose::kShuffle, 0), 1000);
  const auto two = permutation(Rng(1, RngPurpose::kShuffle, 1), 1000);
  CHECK(std::set<int64_t>(one.begin(), one.end()).size() == 1000);
  CHECK(*std::max_element(one.begin(), one.end()) == 999);
  CHECK(one != two);
  CHECK(one == permutation(Rng(1, RngPurpose::kShuffle, 0), 1000));
  CHECK(permutation(Rng(1, RngPurpose::kShuffle), 0).empty());
}

TEST_CASE("manual_seed starts the streams of initial values anew", "[rng]") {
  manual_seed(11);
  const uint32_t first = next_init_stream().next();
  const uint32_t second = next_init_stream().next();
  CHECK(first != second);
  manual_seed(11);
  CHECK(initial_seed() == 11);
  CHECK(next_init_stream().next() == first);
}

}  // namespace
}  // namespace heddle
