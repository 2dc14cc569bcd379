#include "heddle/core/shape.h"

#include "heddle/core/device.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

TEST_CASE("numel counts, and refuses what cannot be counted", "[shape]") {
  CHECK(numel({}) == 1);
  CHECK(numel({2, 3, 4}) == 24);
  CHECK(numel({5, 0, 8}) == 0);
  CHECK_THROWS_WITH(numel({2, -1}), ContainsSubstring("(2, -1) has a negative size"));
  CHECK_THROWS_WITH(numel({int64_t{1} << 32, int64_t{1} << 32}), ContainsSubstring("2^63"));
  CHECK_THROWS_WITH(Shape({1, 1, 1, 1, 1, 1, 1}), ContainsSubstring("7 dimensions"));
}

TEST_CASE("Strides of both storage orders", "[shape]") {
  CHECK(strides_for({2, 3, 4, 5}) == Strides{60, 20, 5, 1});
  CHECK(strides_for({2, 3, 4, 5}, MemoryFormat::kChannelsLast) == Strides{60, 1, 15, 3});
  CHECK_THROWS_WITH(strides_for({2, 3}, MemoryFormat::kChannelsLast),
                    ContainsSubstring("expected (N, C, H, W)"));
}

TEST_CASE("is_dense does not look at strides that cannot matter", "[shape]") {
  const Strides last = strides_for({2, 3, 4, 5}, MemoryFormat::kChannelsLast);
  CHECK(is_dense({2, 3, 4, 5}, last, MemoryFormat::kChannelsLast));
  CHECK_FALSE(is_dense({2, 3, 4, 5}, last, MemoryFormat::kContiguous));
  CHECK(is_dense({1, 3}, {99, 1}, MemoryFormat::kContiguous));
  CHECK(is_dense({0, 3}, {7, 7}, MemoryFormat::kContiguous));
  CHECK(is_dense({2, 1, 4, 5}, strides_for({2, 1, 4, 5}), MemoryFormat::kChannelsLast));
  CHECK_FALSE(is_dense({2, 3}, {1, 2}, MemoryFormat::kContiguous));
}

TEST_CASE("Broadcasting follows PyTorch's rule", "[shape]") {
  CHECK(broadcast("add", {2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast("add", {4, 1, 3}, {5, 1}) == Shape{4, 5, 3});
  CHECK(broadcast("add", {}, {2}) == Shape{2});
  CHECK(broadcast("add", {0, 3}, {1, 3}) == Shape{0, 3});
  CHECK_THROWS_WITH(broadcast("add", {2, 3}, {2, 4}),
                    ContainsSubstring("add: shapes (2, 3) and (2, 4) do not broadcast"));
}

TEST_CASE("Dimensions count from the end too", "[shape]") {
  CHECK(wrap_dim("sum", -1, 3) == 2);
  CHECK_THROWS_WITH(wrap_dim("sum", 3, 3), ContainsSubstring("sum: dimension 3 is outside"));
}

TEST_CASE("Devices are parsed, and CUDA is refused where there is none", "[device]") {
  CHECK(parse_devices("cpu,cpu").size() == 2);
  CHECK(parse_devices("all").front() == Device::best());
  CHECK(Device::all().front() == Device::cpu());
  const std::string missing = fmt::format("cuda:{}", Device::all().size() - 1);
  CHECK_THROWS_AS(Device::parse(missing), UsageError);
  if (!built_with_cuda())
    CHECK_THROWS_WITH(Device::parse("cuda:0"), ContainsSubstring("built without CUDA"));
  for (const char* text : {"", "9", "cpu,", "cuda:x", "cuda:", "gpu"})
    CHECK_THROWS_WITH(parse_devices(text), ContainsSubstring("is not one of"));
}

TEST_CASE("A failed check names condition and place", "[error]") {
  const int cols = 0;
  CHECK_THROWS_WITH(
      [&] { HEDDLE_CHECK(cols > 0, "softmax: x is (4, {}), cols must be > 0", cols); }(),
      ContainsSubstring("softmax: x is (4, 0), cols must be > 0 [cols > 0] at "));
}

}  // namespace
}  // namespace heddle
