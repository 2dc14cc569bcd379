#include <cmath>
#include <limits>

#include "heddle/core/tape.h"
#include "heddle/kernels/pool2d.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct PoolCase {
  Shape shape;
  std::pair<int64_t, int64_t> kernel, stride, padding;
};

/// Calls visit(output index, element index) for all elements of all windows, padding left out.
template <class Visit>
Shape visit_windows(const PoolCase& c, const Visit& visit) {
  const int64_t h = c.shape[2], w = c.shape[3];
  const int64_t out_h = (h + 2 * c.padding.first - c.kernel.first) / c.stride.first + 1;
  const int64_t out_w = (w + 2 * c.padding.second - c.kernel.second) / c.stride.second + 1;
  int64_t out = 0;
  for (int64_t plane = 0; plane < c.shape[0] * c.shape[1]; ++plane)
    for (int64_t oh = 0; oh < out_h; ++oh)
      for (int64_t ow = 0; ow < out_w; ++ow, ++out)
        for (int64_t kh = 0; kh < c.kernel.first; ++kh)
          for (int64_t kw = 0; kw < c.kernel.second; ++kw) {
            const int64_t ih = oh * c.stride.first + kh - c.padding.first;
            const int64_t iw = ow * c.stride.second + kw - c.padding.second;
            if (ih >= 0 && ih < h && iw >= 0 && iw < w) visit(out, (plane * h + ih) * w + iw);
          }
  return {c.shape[0], c.shape[1], out_h, out_w};
}

Array max_oracle(const PoolCase& c, const Array& x) {
  Array y = filled_array(visit_windows(c, [](int64_t, int64_t) {}), -HUGE_VAL);
  visit_windows(c, [&](int64_t out, int64_t in) { y[out] = std::max(y[out], x[in]); });
  return y;
}

Array avg_oracle(const PoolCase& c, const Array& x, bool count_include_pad) {
  Array y = filled_array(visit_windows(c, [](int64_t, int64_t) {}));
  Array count = y;
  visit_windows(c, [&](int64_t out, int64_t in) { y[out] += x[in], count[out] += 1.0; });
  for (int64_t i = 0; i < y.n(); ++i)
    y[i] /= count_include_pad ? static_cast<double>(c.kernel.first * c.kernel.second) : count[i];
  return y;
}

std::string name_of_case(const char* op, const PoolCase& c) {
  return fmt::format("{} {} kernel {}x{} stride {}x{} padding {}x{}", op, c.shape, c.kernel.first,
                     c.kernel.second, c.stride.first, c.stride.second, c.padding.first,
                     c.padding.second);
}

const std::vector<PoolCase>& pool_cases() {
  static const std::vector<PoolCase> cases{
      {{2, 33, 6, 6}, {2, 2}, {2, 2}, {0, 0}},
      {{1, 31, 7, 5}, {3, 3}, {2, 2}, {1, 1}},  // ResNet's, windows overlap
      {{3, 16, 5, 7}, {3, 2}, {1, 1}, {1, 1}},  // overlap both ways, kernel not square
      {{2, 1, 9, 8}, {2, 3}, {3, 4}, {0, 1}},   // gaps between windows
      {{1, 17, 8, 33}, {2, 5}, {1, 3}, {1, 2}},
      {{1, 1025, 2, 2}, {2, 2}, {2, 2}, {0, 0}},
      {{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {{1, 3, 20, 20}, {17, 17}, {2, 2}, {3, 3}},  // more places than a byte has
      {{0, 3, 4, 4}, {2, 2}, {2, 2}, {0, 0}},
  };
  return cases;
}

Tensor image(const std::vector<float>& values, int64_t h, int64_t w) {
  Tensor x = on_test_device(Tensor::from<float>(values, {1, 1, h, w}));
  return x.set_requires_grad();
}

}  // namespace

TEST_CASE("max_pool2d follows its oracle", "[device][pool2d]") {
  for (const PoolCase& c : pool_cases()) {
    check_op({.name = name_of_case("max_pool2d", c),
              .inputs = {{c.shape}},
              .op =
                  [&](const Tensors& x) {
                    return max_pool2d(
                        x[0], {.kernel = c.kernel, .stride = c.stride, .padding = c.padding});
                  },
              .oracle = [&](const Arrays& x) { return max_oracle(c, x[0]); }});
  }
}

TEST_CASE("avg_pool2d follows its oracle, with padding counted and not", "[device][pool2d]") {
  for (const PoolCase& c : pool_cases()) {
    for (const bool count_include_pad : {true, false}) {
      check_op({.name = name_of_case("avg_pool2d", c),
                .inputs = {{c.shape}},
                .op =
                    [&](const Tensors& x) {
                      return avg_pool2d(x[0], {.kernel = c.kernel,
                                               .stride = c.stride,
                                               .padding = c.padding,
                                               .count_include_pad = count_include_pad});
                    },
                .oracle = [&](const Arrays& x) { return avg_oracle(c, x[0], count_include_pad); },
                .n_accumulated = c.kernel.first * c.kernel.second});
    }
  }
}

TEST_CASE("global_avg_pool2d follows its oracle", "[device][pool2d]") {
  const std::vector<Shape> shapes{{2, 33, 4, 4},   {3, 31, 1, 1}, {1, 1, 33, 31},
                                  {1, 1025, 2, 3}, {0, 3, 2, 2},  {2, 16, 41, 25}};
  for (const Shape& shape : shapes) {
    const PoolCase all{shape, {shape[2], shape[3]}, {1, 1}, {0, 0}};
    check_op({.name = "global_avg_pool2d " + to_string(shape),
              .inputs = {{shape}},
              .op = [](const Tensors& x) { return global_avg_pool2d(x[0]); },
              .oracle = [&](const Arrays& x) { return avg_oracle(all, x[0], true); },
              .n_accumulated = shape[2] * shape[3]});
  }
}

TEST_CASE("A window of NaN or -infinity keeps its gradient inside", "[device][pool2d]") {
  for_each_isa([] {
    Tensor nan = image({std::nanf(""), 1, 2, 3}, 2, 2);
    Tensor y = max_pool2d(nan, {});
    CHECK(std::isnan(y.item()));
    y.backward(on_test_device(ones({1, 1, 1, 1})));
    CHECK(nan.grad().to_vector<float>() == std::vector<float>{1, 0, 0, 0});
    Tensor low = image({-kInf, -kInf, -kInf, -kInf}, 2, 2);
    y = max_pool2d(low, {});
    CHECK(y.item() == -static_cast<double>(kInf));
    y.backward(on_test_device(ones({1, 1, 1, 1})));
    CHECK(low.grad().to_vector<float>() == std::vector<float>{1, 0, 0, 0});
    Tensor padded = image({-kInf, -kInf, -kInf, -kInf}, 2, 2);
    const Tensor one = on_test_device(ones({1, 1, 1, 1}));
    max_pool2d(padded, {.kernel = {3, 3}, .padding = {1, 1}}).backward(one);
    CHECK(sum(padded.grad()).item() == 1.0);
  });
}

TEST_CASE("Of equal maxima the first takes the gradient", "[device][pool2d]") {
  Tensor x = image({5, 5, 1, 5, 5, 1}, 2, 3);
  max_pool2d(x, {.kernel = {2, 2}, .stride = std::pair<int64_t, int64_t>{1, 1}})
      .backward(on_test_device(Tensor::from<float>({1, 2}, {1, 1, 1, 2})));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 2, 0, 0, 0, 0});
}

TEST_CASE("Overlapping windows add up in max_pool2d's gradient", "[device][pool2d]") {
  Tensor x = image({0, 0, 0, 0, 9, 0, 0, 0, 0}, 3, 3);
  max_pool2d(x, {.kernel = {2, 2}, .stride = std::pair<int64_t, int64_t>{1, 1}})
      .backward(on_test_device(Tensor::from<float>({1, 2, 3, 4}, {1, 1, 2, 2})));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 0, 0, 10, 0, 0, 0, 0});
}

TEST_CASE("The mean of a float16 image is summed in float32", "[device][pool2d]") {
  const auto image_of = [](double value) {
    return on_test_device(full({1, 1, 64, 64}, value, DType::kFloat16));
  };
  CHECK(global_avg_pool2d(image_of(32.0)).item() == 32.0);
  CHECK(avg_pool2d(image_of(60000.0), {.kernel = {64, 64}}).item() ==
        Approx(60000.0).epsilon(1e-3));
}

TEST_CASE("CV-3: pooling refuses windows that do not fit", "[device][pool2d]") {
  const auto zeros = [](const Shape& shape, DType dtype = DType::kFloat32) {
    return heddle::zeros(shape, dtype, test_device());
  };
  const Tensor x = zeros({1, 1, 2, 2});
  check_error(
      [&] {
        max_pool2d(x, {.kernel = {3, 3}});
      },
      "max_pool2d: input is 2 along H, with padding 0 smaller than the kernel 3");
  check_error([&] { avg_pool2d(x, {.kernel = {2, 4}}); }, "avg_pool2d: input is 2 along W");
  check_error(
      [&] {
        max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 2}});
      },
      "max_pool2d: padding is 2 along H, expected 0 to 1, half of the kernel 2");
  check_error([&] { max_pool2d(x, {.padding = {0, -1}}); }, "padding is -1 along W");
  check_error(
      [&] {
        max_pool2d(x, {.stride = std::pair<int64_t, int64_t>{0, 1}});
      },
      "stride 0 along H");
  check_error([&] { max_pool2d(x, {.kernel = {2, 0}}); }, "kernel is 0");
  check_error([&] { max_pool2d(zeros({1, 2, 2}), {}); }, "max_pool2d: x is (1, 2, 2)");
  check_error([&] { global_avg_pool2d(zeros({1, 2, 0, 2})); }, "global_avg_pool2d: x is (1, 2, 0");
  check_error(
      [&] {
        avg_pool2d(zeros({1, 2, 2, 2}, DType::kInt64), {});
      },
      "avg_pool2d: x is int64");
  const Tensor fits = max_pool2d(
      x, {.kernel = {3, 3}, .stride = std::pair<int64_t, int64_t>{1, 1}, .padding = {1, 1}});
  CHECK(fits.shape() == Shape{1, 1, 2, 2});
}

}  // namespace heddle::testing
