// What conv2d refuses, and what it says.
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle {

using testing::test_device;

TEST_CASE("CV-3, conv2d: what does not fit is refused with the sizes", "[device]") {
  const auto ones = [](const Shape& shape, DType dtype = DType::kFloat32) {
    return heddle::ones(shape, dtype, test_device());
  };
  const Tensor x = ones({1, 1, 2, 2});
  const auto message = [&](const Tensor& image, const Shape& w, const Conv2dOptions& options) {
    try {
      conv2d(image, ones(w), {}, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  for (const auto& [w, options] : std::vector<std::pair<Shape, Conv2dOptions>>{
           {{1, 1, 3, 3}, {}}, {{1, 1, 4, 4}, {}}, {{1, 1, 3, 3}, {.stride = {2, 2}}}}) {
    const std::string text = message(x, w, options);
    CHECK_THAT(text, ContainsSubstring("conv2d: a window of"));
    CHECK_THAT(text, ContainsSubstring("does not fit a padded input of 2 (x (1, 1, 2, 2), weight"));
    CHECK_THAT(text, ContainsSubstring("padding (0, 0)"));
  }
  CHECK(conv2d(x, ones({1, 1, 3, 3}), {}, {.padding = {1, 1}}).shape() == Shape({1, 1, 2, 2}));
  CHECK_THAT(message(x, {1, 1, 1, 1}, {.stride = {0, 1}}),
             ContainsSubstring("conv2d: stride is (0, 1), expected 1 or more"));
  CHECK_THAT(message(x, {1, 1, 1, 1}, {.padding = {0, -1}}),
             ContainsSubstring("conv2d: padding is (0, -1), expected 0 or more"));
  CHECK_THAT(message(x, {1, 1, 1, 1}, {.dilation = {0, 0}}),
             ContainsSubstring("conv2d: dilation is (0, 0), expected 1 or more"));
  CHECK_THAT(message(ones({1, 3, 2, 2}), {2, 1, 1, 1}, {.groups = 2}),
             ContainsSubstring("conv2d: groups must divide the channels of both sides"));
  CHECK_THAT(message(x, {1, 1, 1, 1}, {.groups = 0}), ContainsSubstring("groups must divide"));
  CHECK_THAT(message(x, {1, 2, 1, 1}, {}),
             ContainsSubstring("conv2d: weight has 2 input channels, expected 1"));
  CHECK_THAT(message(ones({1, 2, 2}), {1, 1, 1, 1}, {}),
             ContainsSubstring("conv2d: x is (1, 2, 2), expected (N, C, H, W)"));
  CHECK_THAT(message(x, {1, 1, 1}, {}), ContainsSubstring("conv2d: weight is (1, 1, 1), expected"));
  CHECK_THAT(message(ones({1, 1, 2, 2}, DType::kInt64), {1, 1, 1, 1}, {}),
             ContainsSubstring("conv2d: x is int64, expected a floating dtype"));
  CHECK_THAT(message(ones({1, 1, 2, 2}, DType::kFloat64), {1, 1, 1, 1}, {}),
             ContainsSubstring("conv2d: weight is float32 and x is float64, expected the same"));
  CHECK_THROWS_WITH(conv2d(x, ones({1, 1, 1, 1}), ones({2})),
                    ContainsSubstring("conv2d: bias is (2), expected (1)"));
}

}  // namespace heddle
