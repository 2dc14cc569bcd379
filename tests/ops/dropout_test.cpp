#include <cmath>
#include <limits>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

const Rng kStream(7, RngPurpose::kDropout, 3, 1);

/// Element i in logical order lives where draw i is not below the probability.
Array oracle(const Array& x, double probability) {
  Rng rng = kStream;
  Array y = x;
  for (int64_t i = 0; i < x.n(); ++i) {
    const bool dropped = rng.next_bernoulli(static_cast<float>(probability));
    y[i] = dropped ? 0.0 : x[i] / (1.0 - probability);
  }
  return y;
}

void check(const Shape& shape, double probability) {
  check_op({.name = fmt::format("dropout {} of {}", probability, shape),
            .inputs = {{.shape = shape}},
            .op = [=](const Tensors& x) { return dropout(x[0], probability, kStream); },
            .oracle = [=](const Arrays& x) { return oracle(x[0], probability); }});
}

}  // namespace

TEST_CASE("dropout follows its oracle whatever the layout", "[device][dropout]") {
  for (const int64_t n : odd_sizes()) check({n}, 0.5);
  check({3, 5, 7}, 0.1);
  check({2, 3, 4, 5}, 0.3);
  check({2, 65, 17, 17}, 0.5);  // more planes and pixels than a tile, no multiple of four
  check({3, 1, 9, 1}, 0.9);
  check({0, 3, 2, 2}, 0.5);
}

TEST_CASE("dropout keeps the share that it is told", "[dropout]") {
  const Tensor y = dropout(ones({200000}), 0.25, kStream);
  CHECK(sum(y).item() / 200000 == Approx(1.0).margin(0.01));
  const Tensor kept = gt(y, zeros({1}));
  CHECK(sum(to(kept, DType::kInt64)).item() / 200000 == Approx(0.75).margin(0.005));
}

TEST_CASE("dropout's masks follow from the stream alone", "[dropout]") {
  const Tensor x = ones({1000});
  check_same_bits(dropout(x, 0.5, kStream), dropout(x, 0.5, kStream));
  const Tensor other = dropout(x, 0.5, Rng(7, RngPurpose::kDropout, 4, 1));
  CHECK(other.to_vector<float>() != dropout(x, 0.5, kStream).to_vector<float>());
}

TEST_CASE("dropout outside of training, and with probability 0 or 1", "[dropout]") {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = Tensor::from<float>({1, -2, inf, std::nanf("")}, {4});
  CHECK(dropout(x, 0.5, kStream, false).is_same(x));
  CHECK(dropout(x, 0.0, kStream).is_same(x));
  x.set_requires_grad();
  const Tensor none = dropout(x, 1.0, kStream);
  CHECK(none.to_vector<float>() == std::vector<float>(4, 0.0F));
  none.backward(full({4}, static_cast<double>(inf)));
  CHECK(x.grad().to_vector<float>() == std::vector<float>(4, 0.0F));
}

TEST_CASE("dropout refuses other probabilities and dtypes", "[dropout]") {
  check_error([] { dropout(ones({2}), -0.1, kStream); }, "dropout: probability is -0.1");
  check_error([] { dropout(ones({2}), 1.5, kStream); }, "dropout: probability is 1.5");
  check_error([] { dropout(ones({2}), std::nan(""), kStream); }, "dropout: probability is nan");
  check_error([] { dropout(ones({2}, DType::kUInt8), 0.5, kStream); }, "dropout: x is uint8");
}

}  // namespace heddle::testing
