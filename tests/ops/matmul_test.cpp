#include "heddle/kernels/matmul.h"

#include "heddle/nn/ops.h"
#include "heddle/tests/support/device.h"
#include "heddle/tests/support/product_cases.h"

namespace heddle {
namespace {

using test::Guarded;
using test::largest_difference;
using test::product_tolerance;
using test::random_values;
using test::SettingsGuard;
using testing::on_test_device;
using testing::test_device;

struct Row {
  int64_t batch, m, n, k;
};

const std::vector<Row> kRows = {{1, 1, 1, 1},     {1, 33, 31, 32},  {3, 5, 7, 9},
                                {2, 64, 48, 100}, {1, 1, 70, 1023}, {1, 70, 1, 1025},
                                {1, 500, 40, 60}, {1, 4, 6, 5000},  {4, 3, 2, 0},
                                {0, 3, 2, 4},     {2, 0, 3, 4},     {1, 13, 300, 17}};

double element(const Guarded<double>& x, int64_t index) { return x.data()[index]; }

/// a (batch, m, k) and b (batch, k, n), each stored row-major or transposed.
void check_row(const Row& r, bool a_turned, bool b_turned) {
  const auto a = random_values<double>(r.batch * r.m * r.k, 1);
  const auto b = random_values<double>(r.batch * r.k * r.n, 2);
  const int64_t a_row = a_turned ? 1 : r.k, a_col = a_turned ? r.m : 1;
  const int64_t b_row = b_turned ? 1 : r.n, b_col = b_turned ? r.k : 1;
  std::vector<double> right;
  for (int64_t i = 0; i < r.batch; ++i)
    for (int64_t m = 0; m < r.m; ++m)
      for (int64_t n = 0; n < r.n; ++n) {
        double total = 0.0;
        for (int64_t k = 0; k < r.k; ++k)
          total += element(a, i * r.m * r.k + m * a_row + k * a_col) *
                   element(b, i * r.k * r.n + k * b_row + n * b_col);
        right.push_back(total);
      }
  Guarded<double> c(r.batch * r.m * r.n);
  cpu::matmul({DType::kFloat64, r.batch, r.m, r.n, r.k, c.data(), a.data(), r.m * r.k, a_row, a_col,
               b.data(), r.k * r.n, b_row, b_col});
  CHECK(c.intact());
  CHECK(largest_difference(c.to_doubles(), right) <= product_tolerance<double>(r.k));
}

/// Every second element of a tensor twice as wide: no stride is one.
Tensor spread(const Shape& shape, uint64_t seed) {
  Shape wide = shape;
  wide[wide.size() - 1] *= 2;
  const Tensor x = on_test_device(randn(wide, Rng(seed, RngPurpose::kUser)));
  Strides strides = x.strides();
  strides[strides.size() - 1] = 2;
  return x.as_strided(shape, strides, 0);
}

std::vector<double> differences_of(const Tensor& a, const Tensor& b, const Tensor& weights,
                                   bool of_a) {
  const std::vector<double> values = (of_a ? a : b).to_vector<double>();
  std::vector<double> differences;
  for (size_t i = 0; i < values.size(); ++i) {
    double sides[2];
    for (const int side : {0, 1}) {
      std::vector<double> moved = values;
      moved[i] += side == 0 ? 1e-5 : -1e-5;
      const Tensor other = Tensor::from(moved, (of_a ? a : b).shape());
      sides[side] =
          sum(mul(of_a ? matmul(other, b.detach()) : matmul(a.detach(), other), weights)).item();
    }
    differences.push_back((sides[0] - sides[1]) / 2e-5);
  }
  return differences;
}

}  // namespace

TEST_CASE("matmul: agrees with float64 sums for operands stored either way") {
  const SettingsGuard guard;
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    for (const Row& row : kRows)
      for (const bool a_turned : {false, true})
        for (const bool b_turned : {false, true}) {
          INFO(cpu::name_of(isa) << " " << row.batch << " " << row.m << " " << row.n << " " << row.k
                                 << (a_turned ? " a turned" : "") << (b_turned ? " b turned" : ""));
          check_row(row, a_turned, b_turned);
        }
  }
}

TEST_CASE("matmul: any strides", "[device]") {
  const SettingsGuard guard;
  const Tensor a = spread({5, 40}, 1);
  const Tensor b = spread({40, 35}, 2);
  CHECK(matmul(a, b).to_vector<float>() == matmul(clone(a), clone(b)).to_vector<float>());
}

TEST_CASE("matmul: shapes, vectors and broadcasting follow PyTorch", "[device]") {
  const SettingsGuard guard;
  const auto on_device = [](const Shape& shape) { return on_test_device(ones(shape)); };
  const auto shape_of = [&](const Shape& a, const Shape& b) {
    return matmul(on_device(a), on_device(b)).shape();
  };
  CHECK(shape_of({3}, {3}) == Shape{});
  CHECK(shape_of({2, 3}, {3}) == Shape({2}));
  CHECK(shape_of({3}, {3, 4}) == Shape({4}));
  CHECK(shape_of({5, 2, 3}, {3, 4}) == Shape({5, 2, 4}));
  CHECK(shape_of({2, 3}, {5, 3, 4}) == Shape({5, 2, 4}));
  CHECK(shape_of({6, 1, 2, 3}, {5, 3, 4}) == Shape({6, 5, 2, 4}));
  CHECK(shape_of({5, 2, 3}, {3}) == Shape({5, 2}));
  CHECK(shape_of({2, 0}, {0, 4}) == Shape({2, 4}));
  CHECK(matmul(on_device({2, 0}), on_device({0, 4})).to_vector<float>() ==
        std::vector<float>(8, 0.0F));
  CHECK(matmul(arange(3, DType::kFloat32, test_device()), arange(3, DType::kFloat32, test_device()))
            .item() == 5.0);
}

TEST_CASE("matmul: gradients agree with central differences") {
  const SettingsGuard guard;
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{3, 4}, {4, 5}}, {{2, 3, 4}, {4, 5}}, {{3, 4}, {2, 4, 5}}, {{2, 1, 3, 2}, {3, 2, 2}},
      {{4}, {4, 3}},    {{3, 4}, {4}},       {{4}, {4}}};
  for (const auto& [a_shape, b_shape] : cases) {
    INFO(to_string(a_shape) << " " << to_string(b_shape));
    Tensor a = randn(a_shape, Rng(1, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    Tensor b = randn(b_shape, Rng(2, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    a.set_requires_grad();
    b.set_requires_grad();
    const Tensor y = matmul(a, b);
    const Tensor weights = randn(y.shape(), Rng(3, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    sum(mul(y, weights)).backward();
    CHECK(a.grad().shape() == a_shape);
    CHECK(largest_difference(a.grad().to_vector<double>(), differences_of(a, b, weights, true)) <
          1e-7);
    CHECK(largest_difference(b.grad().to_vector<double>(), differences_of(a, b, weights, false)) <
          1e-7);
  }
}

TEST_CASE("matmul: 16-bit floats are computed in float32 and rounded once") {
  const SettingsGuard guard;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Tensor a = to(randn({2, 5, 40}, Rng(1, RngPurpose::kUser)), dtype);
    const Tensor b = to(randn({9, 40}, Rng(2, RngPurpose::kUser)), dtype);
    const Tensor wide = matmul(to(a, DType::kFloat32), transpose(to(b, DType::kFloat32), 0, 1));
    CHECK(matmul(a, transpose(b, 0, 1)).to_vector<float>() == to(wide, dtype).to_vector<float>());
  }
}

TEST_CASE("matmul: operands that do not fit are refused with their shapes") {
  CHECK_THROWS_WITH(
      matmul(ones({2, 3}), ones({4, 5})),
      ContainsSubstring("matmul: a is (2, 3) and b is (4, 5), expected 3 rows in b, found 4"));
  CHECK_THROWS_WITH(matmul(ones({}), ones({3})),
                    ContainsSubstring("expected one dimension or more"));
  CHECK_THROWS_WITH(matmul(ones({2, 3}), ones({3, 2}, DType::kFloat64)),
                    ContainsSubstring("matmul: a is float32 and b is float64"));
  CHECK_THROWS_WITH(matmul(ones({2, 2}, DType::kInt64), ones({2, 2}, DType::kInt64)),
                    ContainsSubstring("matmul: a is int64, expected a floating dtype"));
  CHECK_THROWS_WITH(matmul(ones({2, 2, 3}), ones({3, 3, 2})), ContainsSubstring("matmul"));
}

}  // namespace heddle
