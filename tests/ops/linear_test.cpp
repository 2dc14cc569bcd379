#include "heddle/kernels/linear.h"

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
  int64_t rows, in, out;
};

const std::vector<Row> kRows = {{1, 1, 1},       {0, 5, 3},      {3, 785, 10},   {31, 33, 32},
                                {33, 31, 1},     {64, 128, 10},  {64, 512, 10},  {127, 65, 33},
                                {129, 100, 130}, {400, 70, 17},  {500, 900, 40}, {16, 5000, 12},
                                {9, 4100, 33},   {5, 40, 3000},  {7, 1000, 260}, {20, 9000, 130},
                                {65, 1100, 70},  {70, 450, 500}, {401, 77, 11},  {1, 4200, 25}};

/// One product with random operands, and what float64 sums say of it.
template <class T>
struct Case {
  explicit Case(const Row& row)
      : r(row),
        x(random_values<T>(r.rows * r.in, 1)),
        w(random_values<T>(r.out * r.in, 2)),
        bias(random_values<T>(r.out, 3)),
        dy(random_values<T>(r.rows * r.out, 4)),
        right_y(static_cast<size_t>(r.rows * r.out)),
        right_dx(static_cast<size_t>(r.rows * r.in)),
        right_dw(static_cast<size_t>(r.out * r.in)),
        right_db(static_cast<size_t>(r.out)) {
    for (int64_t m = 0; m < r.rows; ++m)
      for (int64_t o = 0; o < r.out; ++o) {
        const double g = double(dy.data()[m * r.out + o]);
        double total = double(bias.data()[o]);
        for (int64_t i = 0; i < r.in; ++i) {
          total += double(x.data()[m * r.in + i]) * double(w.data()[o * r.in + i]);
          right_dx[static_cast<size_t>(m * r.in + i)] += g * double(w.data()[o * r.in + i]);
          right_dw[static_cast<size_t>(o * r.in + i)] += g * double(x.data()[m * r.in + i]);
        }
        right_y[static_cast<size_t>(m * r.out + o)] = total;
        right_db[static_cast<size_t>(o)] += g;
      }
  }

  Row r;
  Guarded<T> x, w, bias, dy;
  std::vector<double> right_y, right_dx, right_dw, right_db;
};

template <class T>
struct Results {
  explicit Results(const Case<T>& c)
      : y(c.dy.size()), dx(c.x.size()), dw(c.w.size()), db(c.bias.size()) {
    const DType dtype = dtype_of<T>;
    const auto [rows, in, out] = c.r;
    cpu::linear_forward(
        {dtype, rows, in, out, y.data(), c.x.data(), c.w.data(), c.bias.data(), false});
    cpu::linear_backward_data({dtype, rows, in, out, dx.data(), c.dy.data(), c.w.data()});
    cpu::linear_backward_weight(
        {dtype, rows, in, out, dw.data(), db.data(), c.x.data(), c.dy.data()});
  }
  bool intact() const { return y.intact() && dx.intact() && dw.intact() && db.intact(); }
  bool same_bits(const Results& o) const {
    return y.same_bits(o.y) && dx.same_bits(o.dx) && dw.same_bits(o.dw) && db.same_bits(o.db);
  }

  Guarded<T> y, dx, dw, db;
};

template <class T>
void check_row(const Row& row) {
  const Case<T> c(row);
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    INFO(row.rows << "x" << row.in << "x" << row.out << " " << cpu::name_of(isa) << " "
                  << name_of(dtype_of<T>));
    const Results<T> r(c);
    CHECK(r.intact());
    CHECK(largest_difference(r.y.to_doubles(), c.right_y) <= product_tolerance<T>(row.in));
    CHECK(largest_difference(r.dx.to_doubles(), c.right_dx) <= product_tolerance<T>(row.out));
    CHECK(largest_difference(r.dw.to_doubles(), c.right_dw) <= product_tolerance<T>(row.rows));
    CHECK(largest_difference(r.db.to_doubles(), c.right_db) <= product_tolerance<T>(row.rows));
  }
}

template <class T>
void check_threads(const Row& row) {
  const Case<T> c(row);
  set_num_threads(1);
  const Results<T> one(c);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    CHECK(Results<T>(c).same_bits(one));
  }
}

std::vector<float> gradient_of(Tensor& leaf) {
  const std::vector<float> values = leaf.grad().to_vector<float>();
  leaf.set_grad({});
  return values;
}

}  // namespace

TEST_CASE("linear: values and gradients agree with float64 sums on every instruction set") {
  const SettingsGuard guard;
  for (const Row& row : kRows) {
    check_row<float>(row);
    check_row<double>(row);
    check_row<BFloat16>(row);
  }
}

TEST_CASE("linear: the same bits for any number of threads") {
  const SettingsGuard guard;
  for (const Row& row : {Row{64, 9000, 24}, Row{700, 100, 70}, Row{20, 50, 4000},
                         Row{20, 9000, 130}, Row{70, 1100, 70}}) {
    check_threads<float>(row);
    check_threads<BFloat16>(row);
  }
}

TEST_CASE("CV-6 (b), linear: rows of odd length are summed to the last element", "[device]") {
  const SettingsGuard guard;
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    for (const int64_t batch : {1, 3, 31, 33, 127, 129}) {
      const Tensor y = linear(ones({batch, 785}, DType::kFloat32, test_device()),
                              ones({10, 785}, DType::kFloat32, test_device()), {});
      CHECK(y.to_vector<float>() == std::vector<float>(static_cast<size_t>(batch * 10), 785.0F));
    }
  }
}

TEST_CASE("AG-6, linear: an empty batch gives zero gradients of full shape", "[device]") {
  const SettingsGuard guard;
  Tensor x = on_test_device(zeros({0, 5}));
  Tensor w = on_test_device(ones({3, 5}));
  Tensor b = on_test_device(ones({3}));
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor y = linear(x, w, b);
  CHECK(y.shape() == Shape({0, 3}));
  sum(y).backward();
  CHECK(x.grad().shape() == Shape({0, 5}));
  CHECK(w.grad().to_vector<float>() == std::vector<float>(15, 0.0F));
  CHECK(b.grad().to_vector<float>() == std::vector<float>(3, 0.0F));
}

TEST_CASE("linear: backward through a transpose equals the copy", "[device]") {
  const SettingsGuard guard;
  Tensor x = on_test_device(randn({5, 7}, Rng(1, RngPurpose::kUser)));
  Tensor w = on_test_device(randn({3, 5}, Rng(2, RngPurpose::kUser)));
  x.set_requires_grad();
  w.set_requires_grad();
  sum(linear(transpose(x, 0, 1), w, {})).backward();
  const std::vector<float> dx = gradient_of(x);
  const std::vector<float> dw = gradient_of(w);
  sum(linear(clone(transpose(x, 0, 1)), w, {})).backward();
  CHECK(gradient_of(x) == dx);
  CHECK(gradient_of(w) == dw);
}

TEST_CASE("linear: an image goes in as it is stored, the same as flattened", "[device]") {
  const SettingsGuard guard;
  const Tensor x = on_test_device(randn({4, 3, 5, 6}, Rng(1, RngPurpose::kUser)));
  const Tensor w = on_test_device(randn({7, 3, 5, 6}, Rng(2, RngPurpose::kUser)));
  const Tensor b = on_test_device(randn({7}, Rng(3, RngPurpose::kUser)));
  const std::vector<float> right =
      linear(reshape(x, {4, 90}), reshape(w, {7, 90}), b).to_vector<float>();
  for (const MemoryFormat x_format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast})
    for (const MemoryFormat w_format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
      Tensor image = clone(contiguous(x, x_format));
      Tensor weight = clone(contiguous(w, w_format));
      image.set_requires_grad();
      weight.set_requires_grad();
      const Tensor y = linear(image, weight, b);
      const std::vector<float> found = y.to_vector<float>();
      for (size_t i = 0; i < right.size(); ++i) CHECK(found[i] == Approx(right[i]).margin(1e-4));
      sum(y).backward();
      CHECK(image.grad().shape() == image.shape());
      CHECK(weight.grad().shape() == weight.shape());
      double total = 0.0;  // dw of every output is the sum of the images
      for (int64_t n = 0; n < 4; ++n) total += x.at({n, 2, 3, 4});
      CHECK(weight.grad().at({6, 2, 3, 4}) == Approx(total));
    }
}

TEST_CASE("linear: ReLU in the epilogue and its gradient agree with central differences") {
  const SettingsGuard guard;
  const Shape x_shape{2, 3, 4};  // leading dimensions are rows
  Tensor x = randn(x_shape, Rng(1, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
  Tensor w = randn({5, 4}, Rng(2, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
  Tensor b = randn({5}, Rng(3, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor y = linear(x, w, b, true);
  CHECK(y.shape() == Shape({2, 3, 5}));
  CHECK(y.to_vector<double>() == relu(linear(x, w, b)).to_vector<double>());
  const Tensor weights = randn(y.shape(), Rng(4, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
  sum(mul(y, weights)).backward();
  for (Tensor* t : {&x, &w, &b}) {
    const std::vector<double> values = t->to_vector<double>();
    std::vector<double> differences;
    for (size_t i = 0; i < values.size(); ++i) {
      double sides[2];
      for (const int side : {0, 1}) {
        std::vector<double> moved = values;
        moved[i] += side == 0 ? 1e-5 : -1e-5;
        const Tensor other = Tensor::from(moved, t->shape());
        sides[side] = sum(mul(linear(t == &x ? other : x.detach(), t == &w ? other : w.detach(),
                                     t == &b ? other : b.detach(), true),
                              weights))
                          .item();
      }
      differences.push_back((sides[0] - sides[1]) / 2e-5);
    }
    CHECK(largest_difference(t->grad().to_vector<double>(), differences) < 1e-7);
  }
}

TEST_CASE("linear: 16-bit floats are computed in float32 and rounded once") {
  const SettingsGuard guard;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Tensor x = to(randn({5, 40}, Rng(1, RngPurpose::kUser)), dtype);
    const Tensor w = to(randn({9, 40}, Rng(2, RngPurpose::kUser)), dtype);
    const Tensor wide = linear(to(x, DType::kFloat32), to(w, DType::kFloat32), {});
    CHECK(linear(x, w, {}).to_vector<float>() == to(wide, dtype).to_vector<float>());
  }
}

TEST_CASE("linear: operands that do not fit are refused with their shapes") {
  CHECK_THROWS_WITH(linear(ones({2, 3}), ones({4, 5}), {}),
                    ContainsSubstring("linear: x is (2, 3), expected (..., 5) for weight (4, 5)"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), ones({4}), {}),
                    ContainsSubstring("linear: weight is (4), expected (out, in)"));
  CHECK_THROWS_WITH(
      linear(ones({2, 3, 4, 5}), ones({7, 3, 5, 4}), {}),
      ContainsSubstring(
          "linear: x is (2, 3, 4, 5), expected (N, 3, 5, 4) for weight (7, 3, 5, 4)"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), ones({4, 3}), ones({5})),
                    ContainsSubstring("linear: bias is (5), expected (4)"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), ones({4, 3}, DType::kFloat64), {}),
                    ContainsSubstring("linear: weight is float64 and x is float32"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), ones({4, 3}), ones({4}, DType::kFloat64)),
                    ContainsSubstring("linear: bias is float64 and x is float32"));
  CHECK_THROWS_WITH(linear(ones({2, 3}, DType::kInt64), ones({4, 3}, DType::kInt64), {}),
                    ContainsSubstring("linear: x is int64, expected a floating dtype"));
}

}  // namespace heddle
