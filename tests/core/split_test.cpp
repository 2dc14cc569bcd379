#include "heddle/core/split.h"

#include "heddle/tests/support/catch.h"

namespace heddle::test {

TEST_CASE("split_evenly: longer runs first, empty ones last") {
  CHECK(split_evenly(9, 4) == std::vector<Range>{{0, 3}, {3, 2}, {5, 2}, {7, 2}});
  CHECK(split_evenly(2, 3) == std::vector<Range>{{0, 1}, {1, 1}, {2, 0}});
  CHECK_THROWS_WITH(split_evenly(2, 0), ContainsSubstring("2 in 0 parts"));
}

}  // namespace heddle::test
