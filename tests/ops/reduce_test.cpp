#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

struct Row {
  Shape shape;
  Dims dims;
};

std::vector<Row> rows() {
  std::vector<Row> all{
      {{}, {}},
      {{2, 3}, {}},
      {{2, 3}, {0}},
      {{2, 3}, {-1}},
      {{1, 1}, {0}},
      {{2, 3, 4}, {1}},
      {{2, 3, 4}, {0, 2}},
      {{2, 3, 4}, {2, 0}},
      {{2, 3, 5, 7}, {0, 2, 3}},  // per channel
      {{2, 3, 5, 7}, {1}},
      {{2, 3, 5, 7}, {3, 1}},
      {{2, 3, 2, 3, 2, 3}, {1, 3, 5}},
      {{3, 0}, {0}},       // an empty result
      {{3000, 2}, {0}},    // long columns
      {{2, 3000}, {1}},    // long rows
      {{5, 600, 3}, {1}},  // more columns than a block when channels-last
      {{2, 300, 5}, {2}},
      {{300, 200}, {0}},
      {{40, 50, 60}, {}},  // more than one piece
  };
  for (const int64_t n : odd_sizes()) {
    if (n == 0) continue;
    all.push_back({{n}, {0}});
    all.push_back({{3, n}, {1}});
    all.push_back({{n, 3}, {0}});
    all.push_back({{n, 2}, {1}});
  }
  return all;
}

bool is_reduced(const Row& row, int dim) {
  if (row.dims.empty()) return true;
  for (const int64_t d : row.dims)
    if (d == dim || d + row.shape.size() == dim) return true;
  return false;
}

/// Calls add(y place, x place) for each element of x.
template <class Add>
Array reduced(const Row& row, bool keepdim, double initial, const Add& add) {
  Shape full;
  Shape shape;
  for (int i = 0; i < row.shape.size(); ++i) {
    full.push_back(is_reduced(row, i) ? 1 : row.shape[i]);
    if (!is_reduced(row, i)) shape.push_back(row.shape[i]);
  }
  Array y = filled_array(full, initial);
  for (int64_t i = 0; i < numel(row.shape); ++i) {
    int64_t place = 0;
    int64_t stride = 1;
    int64_t rest = i;
    for (int d = row.shape.size() - 1; d >= 0; --d) {
      if (!is_reduced(row, d)) place += rest % row.shape[d] * stride;
      rest /= row.shape[d];
      stride *= full[d];
    }
    add(y, place, i);
  }
  if (!keepdim) y.shape = shape;
  return y;
}

int64_t n_terms(const Row& row) {
  int64_t n = 1;
  for (int i = 0; i < row.shape.size(); ++i)
    if (is_reduced(row, i)) n *= row.shape[i];
  return n;
}

std::string name_of_row(const std::string& op, const Row& row, bool keepdim) {
  return op + " " + to_string(row.shape) + " over " + to_string(row.dims) +
         (keepdim ? " keepdim" : "");
}

Array sum_of(const Row& row, bool keepdim, const Array& x) {
  return reduced(row, keepdim, 0.0, [&](Array& y, int64_t to, int64_t i) { y[to] += x[i]; });
}

TEST_CASE("sum", "[device][sum]") {
  for (const Row& row : rows()) {
    for (const bool keepdim : {false, true}) {
      check_op({.name = name_of_row("sum", row, keepdim),
                .inputs = {{.shape = row.shape}},
                .op = [=](const Tensors& x) { return sum(x[0], row.dims, keepdim); },
                .oracle = [=](const Arrays& x) { return sum_of(row, keepdim, x[0]); },
                .n_accumulated = n_terms(row)});
    }
  }
}

TEST_CASE("sum of integers is int64", "[device][sum]") {
  for (const Row& row : rows()) {
    check_op({.name = name_of_row("sum of integers", row, false),
              .inputs = {{.shape = row.shape, .low = -200, .high = 200}},
              .op = [=](const Tensors& x) { return sum(x[0], row.dims); },
              .oracle = [=](const Arrays& x) { return sum_of(row, false, x[0]); },
              .dtypes = {DType::kUInt8, DType::kInt64},
              .result_dtype = DType::kInt64,
              .gradient = false});
  }
}

TEST_CASE("mean", "[device][mean]") {
  for (const Row& row : rows()) {
    check_op({.name = name_of_row("mean", row, true),
              .inputs = {{.shape = row.shape}},
              .op = [=](const Tensors& x) { return mean(x[0], row.dims, true); },
              .oracle =
                  [=](const Arrays& x) {
                    Array y = sum_of(row, true, x[0]);
                    for (double& value : y.values) value /= static_cast<double>(n_terms(row));
                    return y;
                  },
              .n_accumulated = 1});  // the error of the sum is divided too
  }
}

TEST_CASE("max", "[device][max]") {
  for (const Row& row : rows()) {
    check_op({.name = name_of_row("max", row, false),
              .inputs = {{.shape = row.shape, .low = -100, .high = 100}},
              .op = [=](const Tensors& x) { return max(x[0], row.dims); },
              .oracle =
                  [=](const Arrays& x) {
                    return reduced(row, false, -INFINITY, [&](Array& y, int64_t to, int64_t i) {
                      y[to] = std::max(y[to], x[0][i]);
                    });
                  },
              .dtypes = all_dtypes()});
  }
}

TEST_CASE("argmax", "[device][argmax]") {
  for (const Row& row : rows()) {
    if (row.dims.size() != 1) continue;
    check_op({.name = name_of_row("argmax", row, false),
              .inputs = {{.shape = row.shape, .low = -9, .high = 9}},
              .op = [=](const Tensors& x) { return argmax(x[0], row.dims[0]); },
              .oracle =
                  [=](const Arrays& x) {
                    Array best = filled_array(row.shape, -INFINITY);
                    Array seen = filled_array(row.shape);
                    return reduced(row, false, 0.0, [&](Array& y, int64_t to, int64_t i) {
                      if (x[0][i] > best[to]) {
                        best[to] = x[0][i];
                        y[to] = seen[to];
                      }
                      seen[to] += 1;
                    });
                  },
              .dtypes = all_dtypes(),
              .result_dtype = DType::kInt64,
              .gradient = false});
  }
}

TEST_CASE("the first maximum takes the gradient and the index", "[device][max][argmax]") {
  Tensor x = on_test_device(Tensor::from<float>({1, 7, 7, 7, 0, 7}, {2, 3}));
  x.set_requires_grad();
  CHECK(argmax(x, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  max(x).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 1, 0, 0, 0, 0});
}

TEST_CASE("NaN wins every maximum", "[device][max][argmax]") {
  for (const int64_t n : {3, 33, 1025}) {
    for (const DType dtype : floating_dtypes()) {
      if (on_cuda() && dtype == DType::kFloat64) continue;
      Tensor x = full({n, 2}, 1.0, dtype, test_device());
      Tensor second = narrow(x, 1, 1, 1);
      fill_(second, -INFINITY);
      Tensor one = narrow(second, 0, n / 2, 1);
      fill_(one, NAN);
      const auto columns = max(x, {0}).to_vector<float>();
      CHECK(columns[0] == 1.0F);
      CHECK(std::isnan(columns[1]));
      CHECK(std::isnan(max(x).item()));
      CHECK(std::isnan(max(contiguous(transpose(x, 0, 1)), {1}).to_vector<float>()[1]));
      CHECK(argmax(x, 0).to_vector<int64_t>() == std::vector<int64_t>{0, n / 2});
    }
  }
}

TEST_CASE("NU-4: sums of 16-bit floats pass their largest number on the way",
          "[device][sum][mean]") {
  const Tensor x = on_test_device(
      Tensor::from<double>({32000, 32000, 32000, 32000, -32000, -32000, -32000, -32000}, {8}));
  CHECK(sum(to(x, DType::kFloat16)).item() == 0.0);
  CHECK(sum(to(x, DType::kFloat16), {0}, true).item() == 0.0);
  CHECK(mean(full({4096}, 32.0, DType::kFloat16, test_device())).item() == 32.0);
  CHECK(mean(full({4096, 3}, 32.0, DType::kFloat16, test_device()), {0}).to_vector<float>() ==
        std::vector<float>{32, 32, 32});
}

TEST_CASE("the error of a long sum does not grow with its length", "[sum]") {
  const int64_t n = 3000000;
  const Tensor x = full({n}, 0.1);
  const double expected = static_cast<double>(n) * static_cast<double>(0.1F);
  CHECK(std::abs(sum(x).item() - expected) <= 1e-6 * expected);
  CHECK(std::abs(sum(reshape(x, {n / 3, 3}), {0}).at({1}) - expected / 3) <= 1e-6 * expected / 3);
}

TEST_CASE("sums over nothing are 0, means and maxima are errors", "[sum][mean][max][argmax]") {
  CHECK(sum(zeros({0})).item() == 0.0);
  CHECK(sum(zeros({2, 0}), {1}).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(sum(zeros({0, 2}), {0}).to_vector<float>() == std::vector<float>{0, 0});
  check_error([] { mean(zeros({0})); }, "mean: over nothing: x is (0)");
  check_error([] { max(zeros({2, 0}), {1}); }, "max: over nothing: x is (2, 0)");
  check_error([] { argmax(zeros({0, 2}), 0); }, "argmax: over nothing: x is (0, 2)");
  CHECK(mean(zeros({0, 2}), {1}).shape() == Shape{0});
  Tensor x = zeros({0, 3});
  x.set_requires_grad();
  sum(x).backward();
  CHECK(x.grad().shape() == Shape{0, 3});
}

TEST_CASE("reductions refuse what cannot be", "[sum][mean][max][argmax]") {
  check_error([] { sum(ones({2, 3}), {2}); }, "sum: dimension 2 is outside [-2, 2)");
  check_error([] { sum(ones({2, 3}), {1, -1}); }, "sum: dimension 1 is named twice");
  check_error([] { max(ones({2}), {-2}); }, "max: dimension -2 is outside");
  check_error([] { argmax(ones({2}), 1); }, "argmax: dimension 1 is outside");
  check_error([] { mean(ones({2}, DType::kInt64)); }, "mean: x is int64, expected a floating");
}

TEST_CASE("all_finite", "[all_finite]") {
  for (const DType dtype : floating_dtypes()) {
    for (const int64_t n : odd_sizes()) {
      INFO(name_of(dtype) << " " << n);
      Tensor x = full({n}, -3.0, dtype);
      for_each_isa([&] { CHECK(all_finite(x)); });
      if (n == 0) continue;
      for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
          Tensor y = clone(x);
          Tensor one = narrow(y, 0, place, 1);
          fill_(one, bad);
          for_each_isa([&] { CHECK_FALSE(all_finite(y)); });
        }
      }
    }
  }
  Tensor large = zeros({100, 1000});
  CHECK(all_finite(large));
  Tensor last = narrow(narrow(large, 0, 99, 1), 1, 999, 1);
  fill_(last, NAN);
  CHECK_FALSE(all_finite(large));
  CHECK(all_finite(narrow(large, 1, 0, 999)));
  CHECK(all_finite(ones({3}, DType::kInt64)));
}

}  // namespace
}  // namespace heddle
