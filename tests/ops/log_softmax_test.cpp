#include <cmath>
#include <limits>

#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

Array oracle(const Array& x) {
  Array y = x;
  const int64_t cols = x.shape.back();
  for (int64_t begin = 0; begin < x.n(); begin += cols) {
    long double sum = 0.0L;
    for (int64_t i = 0; i < cols; ++i) sum += std::exp(static_cast<long double>(x[begin + i]));
    for (int64_t i = 0; i < cols; ++i)
      y[begin + i] = x[begin + i] - static_cast<double>(std::log(sum));
  }
  return y;
}

Tensor here(const std::vector<float>& values, const Shape& shape) {
  return on_test_device(Tensor::from<float>(values, shape));
}

void check(const Shape& shape) {
  check_op({.name = "log_softmax " + to_string(shape),
            .inputs = {{.shape = shape, .low = -8.0, .high = 8.0}},
            .op = [](const Tensors& x) { return log_softmax(x[0]); },
            .oracle = [](const Arrays& x) { return oracle(x[0]); },
            .n_accumulated = 16});
}

}  // namespace

TEST_CASE("log_softmax follows its oracle for odd sizes", "[device][log_softmax]") {
  for (const int64_t cols : odd_sizes())
    if (cols > 0) check({3, cols});
  check({1025, 10});
  check({0, 10});
  check({7});
  check({2, 3, 2, 5});
}

TEST_CASE("log_softmax keeps far-apart and infinite values", "[device][log_softmax]") {
  const float inf = std::numeric_limits<float>::infinity();
  for_each_isa([&] {
    const Tensor far = log_softmax(here({-431, 279, 427, -1e30F, 1e30F, 0}, {2, 3}));
    CHECK(far.to_vector<float>() == std::vector<float>{-858, -148, 0, -2e30F, 0, -1e30F});
    const Tensor masked = log_softmax(here({-inf, 0, -inf, 0}, {1, 4}));
    CHECK(masked.at({0, 0}) == -inf);
    CHECK(masked.at({0, 1}) == Approx(-std::log(2.0)));
    const Tensor nan = log_softmax(here({0, std::nanf(""), 1, 2}, {1, 4}));
    CHECK(std::isnan(nan.at({0, 3})));
  });
}

TEST_CASE("log_softmax refuses what it cannot do", "[log_softmax]") {
  check_error([] { log_softmax(Tensor::empty({3, 0})); }, "log_softmax: x is (3, 0)");
  check_error([] { log_softmax(Tensor::empty({})); }, "log_softmax: x is ()");
  check_error([] { log_softmax(Tensor::empty({3}, DType::kInt64)); }, "log_softmax: x is int64");
}

}  // namespace heddle::testing
