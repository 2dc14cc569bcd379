#include "heddle/kernels/linear.h"

#include "heddle/tests/kernels/product_oracle.h"

namespace heddle {
namespace {

using namespace testing;

struct Sizes {
  int64_t rows, in, out;
};

struct Layer {
  DType dtype;
  Sizes sizes;
  Mirror x, w, dy;

  Layer(DType type, const Sizes& s, int64_t offset)
      : dtype(type),
        sizes(s),
        x(type, {s.rows, s.in}, offset),
        w(type, {s.out, s.in}, offset),
        dy(type, {s.rows, s.out}, offset) {
    x.fill_random(1);
    w.fill_random(2);
    dy.fill_random(3);
  }
};

/// Of (rows, inner) times (cols, inner), by element functions of (row, k) and (col, k).
template <class A, class B>
std::vector<double> products(int64_t rows, int64_t cols, int64_t inner, const A& a, const B& b) {
  std::vector<double> c;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += a(i, k) * b(j, k);
      c.push_back(sum);
    }
  return c;
}

auto element(const std::vector<double>& values, int64_t row_stride, int64_t col_stride) {
  return [&values, row_stride, col_stride](int64_t i, int64_t j) {
    return values[static_cast<size_t>(i * row_stride + j * col_stride)];
  };
}

void check_forward(const Layer& layer, bool with_bias, bool relu, int64_t offset) {
  const auto [rows, in, out] = layer.sizes;
  const DType dtype = layer.dtype;
  Mirror bias(dtype, {out}, offset), y(dtype, {rows, out}, offset);
  bias.fill_random(4);
  fill_nan(y);
  cuda::linear_forward({dtype, rows, in, out, y.device_data(), layer.x.device_data(),
                        layer.w.device_data(), with_bias ? bias.device_data() : nullptr, relu},
                       test_stream());
  const std::vector<double> x = to_doubles(layer.x, rows * in);
  const std::vector<double> w = to_doubles(layer.w, out * in);
  const std::vector<double> b = to_doubles(bias, out);
  std::vector<double> expected = products(rows, out, in, element(x, in, 1), element(w, in, 1));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (with_bias) expected[i] += b[i % static_cast<size_t>(out)];
    if (relu) expected[i] = std::max(0.0, expected[i]);
  }
  expect(y, expected);
  CHECK_SAME(y, product_tolerance(dtype, in));
}

void check_backward(const Layer& layer, bool with_bias, int64_t offset) {
  const auto [rows, in, out] = layer.sizes;
  const DType dtype = layer.dtype;
  Mirror dx(dtype, {rows, in}, offset), dw(dtype, {out, in}, offset), db(dtype, {out}, offset);
  for (Mirror* result : {&dx, &dw, &db}) fill_nan(*result);
  cuda::linear_backward_data(
      {dtype, rows, in, out, dx.device_data(), layer.dy.device_data(), layer.w.device_data()},
      test_stream());
  cuda::linear_backward_weight(
      {dtype, rows, in, out, dw.device_data(), with_bias ? db.device_data() : nullptr,
       layer.x.device_data(), layer.dy.device_data()},
      test_stream());
  const std::vector<double> x = to_doubles(layer.x, rows * in);
  const std::vector<double> w = to_doubles(layer.w, out * in);
  const std::vector<double> dy = to_doubles(layer.dy, rows * out);
  expect(dx, products(rows, in, out, element(dy, out, 1), element(w, 1, in)));
  expect(dw, products(out, in, rows, element(dy, 1, out), element(x, 1, in)));
  CHECK_SAME(dx, product_tolerance(dtype, out));
  CHECK_SAME(dw, product_tolerance(dtype, rows));
  if (!with_bias) return;
  expect(db, products(out, 1, rows, element(dy, 1, out), [](int64_t, int64_t) { return 1.0; }));
  CHECK_SAME(db, product_tolerance(dtype, rows));
}

void check_linear(DType dtype, const Sizes& sizes, int64_t offset = 0) {
  CAPTURE(name_of(dtype), sizes.rows, sizes.in, sizes.out, offset);
  const Layer layer(dtype, sizes, offset);
  for (const bool with_bias : {false, true}) {
    check_forward(layer, with_bias, !with_bias, offset);
    check_backward(layer, with_bias, offset);
  }
  check_forward(layer, true, true, offset);
}

TEST_CASE("linear on a device: sizes around tiles and vectors", "[linear]") {
  for (const DType dtype : device_floats()) {
    for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{64, 128, 10}, Sizes{33, 72, 65},
                               Sizes{70, 30, 129}, Sizes{5, 40, 24}})
      check_linear(dtype, sizes);
    check_linear(dtype, {19, 24, 32}, 1);
    check_linear(dtype, {19, 24, 32}, 4);
  }
}

TEST_CASE("linear on a device: 785 ones", "[linear]") {  // an odd number of inputs
  for (const DType dtype : device_floats()) {
    for (const int64_t rows : {1, 3, 31, 33, 127, 129}) {
      Mirror x(dtype, {rows, 785}), w(dtype, {10, 785}), y(dtype, {rows, 10});
      for (Mirror* operand : {&x, &w}) operand->fill([](int64_t) { return 1.0; });
      cuda::linear_forward(
          {dtype, rows, 785, 10, y.device_data(), x.device_data(), w.device_data(), nullptr, false},
          test_stream());
      expect(y, std::vector<double>(static_cast<size_t>(rows * 10), 785.0));
      CHECK_SAME_BITS(y);
    }
  }
}

TEST_CASE("linear on a device: long sums are cut into parts", "[linear]") {
  for (const DType dtype : device_floats()) {
    check_linear(dtype, {6, 2100, 12});   // of the forward pass, with bias and ReLU after them
    check_linear(dtype, {1300, 20, 12});  // of the weights' and the bias's gradient
  }
}

TEST_CASE("linear on a device: an empty batch", "[linear]") {
  for (const DType dtype : device_floats()) check_linear(dtype, {0, 5, 3});
}

TEST_CASE("linear on a device has the same bits each time", "[linear]") {
  for (const DType dtype : device_floats()) {
    const Layer layer(dtype, {1300, 24, 16}, 0);
    std::vector<std::byte> first;
    for (int run = 0; run < 2; ++run) {
      Mirror dw(dtype, {16, 24});
      cuda::linear_backward_weight({dtype, 1300, 24, 16, dw.device_data(), nullptr,
                                    layer.x.device_data(), layer.dy.device_data()},
                                   test_stream());
      if (run == 0) first = dw.device_bytes();
      CHECK(dw.device_bytes() == first);
    }
  }
}

TEST_CASE("linear on a device lets NaN through ReLU", "[linear]") {
  for (const DType dtype : device_floats()) {
    Mirror x(dtype, {1, 8}), w(dtype, {2, 8}), y(dtype, {1, 2});
    x.fill([](int64_t) { return NAN; });
    cuda::linear_forward(
        {dtype, 1, 8, 2, y.device_data(), x.device_data(), w.device_data(), nullptr, true},
        test_stream());
    expect(y, {NAN, NAN});
    CHECK_SAME(y, 0);
  }
}

}  // namespace
}  // namespace heddle
