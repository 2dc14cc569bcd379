#include <cmath>
#include <limits>

#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

constexpr int64_t kIgnore = -100;

/// A label for each row, every fifth of them ignored.
std::vector<int64_t> labels_for(int64_t rows, int64_t cols) {
  std::vector<int64_t> labels;
  for (int64_t row = 0; row < rows; ++row)
    labels.push_back(row % 5 == 3 ? kIgnore : (row * 7 + 2) % cols);
  return labels;
}

Array oracle(const Array& x, const std::vector<int64_t>& labels, const CrossEntropyOptions& o) {
  const int64_t cols = x.shape[1];
  Array losses = filled_array({x.shape[0]});
  double count = 0.0, total = 0.0;
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t label = labels[static_cast<size_t>(row)];
    if (label == o.ignore_index) continue;
    long double sum = 0.0L;
    for (int64_t i = 0; i < cols; ++i) sum += std::exp(static_cast<long double>(x[row * cols + i]));
    const double log_sum = static_cast<double>(std::log(sum));
    for (int64_t i = 0; i < cols; ++i) {
      const double weight = (i == label ? 1.0 - o.label_smoothing : 0.0) +
                            o.label_smoothing / static_cast<double>(cols);
      losses[row] += weight * (log_sum - x[row * cols + i]);
    }
    total += losses[row];
    count += 1.0;
  }
  if (o.reduction == Reduction::kNone) return losses;
  return filled_array({}, o.reduction == Reduction::kSum ? total : total / count);
}

void check(int64_t rows, int64_t cols, const CrossEntropyOptions& options) {
  const std::vector<int64_t> labels = labels_for(rows, cols);
  check_op({.name = "cross_entropy " + to_string(Shape{rows, cols}),
            .inputs = {{.shape = {rows, cols}, .low = -6.0, .high = 6.0}},
            .op =
                [=](const Tensors& x) {
                  return cross_entropy(
                      x[0], to(Tensor::from<int64_t>(labels, {rows}), x[0].device()), options);
                },
            .oracle = [=](const Arrays& x) { return oracle(x[0], labels, options); },
            .n_accumulated = options.reduction == Reduction::kSum ? 16 + rows : 16});
}

/// Loss and gradient of float32 logits (rows, cols).
std::pair<std::vector<float>, std::vector<float>> run(const std::vector<float>& logits,
                                                      const std::vector<int64_t>& labels,
                                                      const CrossEntropyOptions& options = {}) {
  const auto rows = static_cast<int64_t>(labels.size());
  Tensor x = on_test_device(
      Tensor::from<float>(logits, {rows, static_cast<int64_t>(logits.size()) / rows}));
  x.set_requires_grad();
  const Tensor loss =
      cross_entropy(x, on_test_device(Tensor::from<int64_t>(labels, {rows})), options);
  loss.backward();
  return {loss.to_vector<float>(), x.grad().to_vector<float>()};
}

/// Exact on the CPU; a device's e^x may be off by units in the last place.
void check_floats(const std::vector<float>& got, const std::vector<float>& expected) {
  const auto shape = Shape{static_cast<int64_t>(got.size())};
  check_close({shape, {got.begin(), got.end()}}, {shape, {expected.begin(), expected.end()}},
              on_cuda() ? 1e-6 : 0.0);
}

}  // namespace

TEST_CASE("cross_entropy follows its oracle for odd sizes", "[device][cross_entropy]") {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
    for (const double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{.reduction = reduction, .label_smoothing = smoothing};
      for (const int64_t cols : {1, 10, 33}) check(31, cols, options);
      check(1, 1025, options);
      check(1025, 10, options);
    }
    if (reduction != Reduction::kMean) check(0, 10, {.reduction = reduction});
  }
}

TEST_CASE("NU-2, cross_entropy takes far-apart logits", "[device][cross_entropy]") {
  using Floats = std::vector<float>;
  for_each_isa([] {
    const auto equal = run({-300, -300, -300, -300}, {0});
    CHECK(equal.first[0] == Approx(1.386294).epsilon(1e-6));
    check_floats(equal.second, {-0.75F, 0.25F, 0.25F, 0.25F});
    const auto far = run({-431, 279, 427}, {0});
    CHECK(far.first == Floats{858});
    check_floats(far.second, {-1, 0, 1});
    const auto two = run({0, 89}, {0});
    CHECK(two.first == Floats{89});
    check_floats(two.second, {-1, 1});
  });
}

TEST_CASE("NU-3, cross_entropy refuses labels outside of the classes and then works",
          "[device][cross_entropy]") {
  const auto with = [](std::vector<int64_t> labels, int64_t ignore) {
    // On a device the label is found when the loss is read.
    return cross_entropy(on_test_device(zeros({3, 5})),
                         on_test_device(Tensor::from<int64_t>(labels, {3})),
                         {.ignore_index = ignore})
        .item();
  };
  check_error([&] { with({1, 0, 5}, kIgnore); }, "cross_entropy: label in row 2 is 5");
  check_error([&] { with({1, 0, -1}, kIgnore); }, "cross_entropy: label in row 2 is -1");
  check_error([&] { with({1, -4, -1}, -1); }, "cross_entropy: label in row 1 is -4");
  CHECK(with({1, 0, 4}, kIgnore) == Approx(std::log(5.0)));
}

TEST_CASE("NU-3, cross_entropy leaves ignored rows out of the mean", "[device][cross_entropy]") {
  const auto some = run({0, 0, 0, 0, 0, 0}, {0, kIgnore, 1});
  CHECK(some.first[0] == Approx(0.693147).epsilon(1e-6));
  check_floats(some.second, {-0.25F, 0.25F, 0, 0, 0.25F, -0.25F});
  const auto none = run({1, std::nanf(""), 3, 4}, {kIgnore, kIgnore});
  CHECK(none.first == std::vector<float>{0});
  CHECK(none.second == std::vector<float>(4, 0.0F));
}

TEST_CASE("cross_entropy's backward takes one gradient for all rows", "[device][cross_entropy]") {
  Tensor x = on_test_device(zeros({64, 2}));
  x.set_requires_grad();
  const Tensor labels = on_test_device(zeros({64}, DType::kInt64));
  sum(cross_entropy(x, labels, {.reduction = Reduction::kNone})).backward();
  for (int64_t row = 0; row < 64; ++row) {
    CHECK(x.grad().at({row, 0}) == Approx(-0.5));
    CHECK(x.grad().at({row, 1}) == Approx(0.5));
  }
}

TEST_CASE("cross_entropy takes labels of any strides", "[cross_entropy]") {
  const Tensor both = Tensor::from<int64_t>({2, 99, 0, 99, 1, 99}, {3, 2});
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  const Tensor strided = reshape(narrow(both, 1, 0, 1), {3});
  CHECK_FALSE(strided.is_contiguous());
  CHECK(cross_entropy(x, strided).item() ==
        cross_entropy(x, Tensor::from<int64_t>({2, 0, 1}, {3})).item());
}

TEST_CASE("cross_entropy in 16 bits sums in float32", "[device][cross_entropy]") {
  const int64_t rows = on_cudasim() ? 4000 : 20000;  // past 2048, where float16 drops units
  const Tensor x = on_test_device(zeros({rows, 10}, DType::kFloat16));
  const Tensor labels = on_test_device(zeros({rows}, DType::kInt64));
  CHECK(cross_entropy(x, labels).item() == Approx(std::log(10.0)).epsilon(1e-3));
  CHECK(cross_entropy(x, labels, {.reduction = Reduction::kSum}).item() ==
        Approx(static_cast<double>(rows) * std::log(10.0)).epsilon(1e-3));
}

TEST_CASE("cross_entropy gives NaN for a NaN and infinity for an impossible label",
          "[device][cross_entropy]") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(run({0, std::nanf(""), 0}, {0}).first[0]));
  CHECK(run({-inf, 0, 0}, {0}).first[0] == inf);
  check_floats(run({-inf, 0, 0}, {0}).second, {-1, 0.5F, 0.5F});
}

TEST_CASE("cross_entropy refuses wrong shapes, dtypes and options", "[cross_entropy]") {
  const Tensor labels = zeros({3}, DType::kInt64);
  const auto with = [&](const Shape& shape, const CrossEntropyOptions& options = {}) {
    cross_entropy(zeros(shape), labels, options);
  };
  check_error([&] { with({4, 5}); }, "cross_entropy: labels are (3), expected (4)");
  check_error([&] { with({3}); }, "cross_entropy: logits are (3)");
  check_error([&] { with({3, 0}); }, "cross_entropy: logits are (3, 0)");
  check_error([&] { with({3, 2}, {.label_smoothing = 1.5}); }, "label_smoothing is 1.5");
  check_error([&] { with({3, 2}, {.label_smoothing = std::nan("")}); }, "label_smoothing is nan");
  check_error([] { cross_entropy(zeros({3, 2}), zeros({3})); }, "labels are float32");
  check_error([] { cross_entropy(zeros({0, 2}), zeros({0}, DType::kInt64)); }, "mean over no rows");
}

}  // namespace heddle::testing
