#include "heddle/data/sampler.h"

#include <algorithm>

#include "heddle/core/error.h"
#include "heddle/tests/support/catch.h"

using heddle::Sampler;

TEST_CASE("sampler: in order, or a permutation of seed and epoch") {
  std::vector<int64_t> sorted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  REQUIRE(Sampler(10, false, 1).order(5) == sorted);
  const std::vector<int64_t> first = Sampler(10, true, 1).order(0);
  REQUIRE(first != sorted);
  REQUIRE(first == Sampler(10, true, 1).order(0));
  REQUIRE(first != Sampler(10, true, 1).order(1));
  REQUIRE(first != Sampler(10, true, 2).order(0));
  REQUIRE(std::is_permutation(first.begin(), first.end(), sorted.begin()));
  REQUIRE(Sampler(0, true, 1).order(0).empty());
  REQUIRE_THROWS_WITH(Sampler(-1, true, 1), ContainsSubstring("-1 samples"));
}
