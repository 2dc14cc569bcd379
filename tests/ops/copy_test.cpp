#include <cmath>
#include <numeric>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

Array identity(const Arrays& x) { return x[0]; }

std::vector<Shape> shapes() {
  std::vector<Shape> all{{}, {2, 3}, {3, 0, 2}, {2, 3, 4, 5}, {1, 1, 1, 1}, {2, 1, 3, 1, 2, 3}};
  for (const int64_t n : odd_sizes()) all.push_back({n});
  return all;
}

/// Sizes on both sides of the vectors, bands and blocks that transposing works in.
std::vector<Shape> image_shapes() {
  return {{2, 3, 5, 7},  {1, 1, 4, 4},   {2, 4, 2, 2},     {2, 16, 4, 4},  {1, 17, 33, 1},
          {3, 64, 8, 8}, {1, 300, 5, 5}, {2, 5, 17, 31},   {1, 64, 33, 1}, {1, 257, 1, 129},
          {0, 3, 4, 4},  {2, 0, 4, 4},   {1, 3, 200, 200}, {2, 40, 40, 40}};
}

TEST_CASE("clone", "[device][clone]") {
  for (const Shape& shape : shapes()) {
    check_op({.name = "clone " + to_string(shape),
              .inputs = {{.shape = shape}},
              .op = [](const Tensors& x) { return clone(x[0]); },
              .oracle = identity,
              .dtypes = all_dtypes()});
  }
  const Tensor x = ones({2});
  Tensor y = clone(x);
  fill_(y, 5.0);
  CHECK(x.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(clone(contiguous(ones({2, 3, 4, 5}), MemoryFormat::kChannelsLast))
            .is_contiguous(MemoryFormat::kChannelsLast));
}

TEST_CASE("contiguous turns images round in both directions", "[device][contiguous]") {
  for (const Shape& shape : image_shapes()) {
    for (const MemoryFormat format : {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast}) {
      const bool last = format == MemoryFormat::kChannelsLast;
      check_op({.name = std::string("contiguous ") + (last ? "NHWC " : "NCHW ") + to_string(shape),
                .inputs = {{.shape = shape, .low = -100, .high = 100}},
                .op =
                    [=](const Tensors& x) {
                      Tensor y = contiguous(x[0], format);
                      CHECK(y.is_contiguous(format));
                      return y;
                    },
                .oracle = identity,
                .dtypes = all_dtypes()});
    }
  }
}

TEST_CASE("contiguous of what is so already is the same tensor", "[contiguous]") {
  const Tensor x = ones({2, 3, 4, 5});
  CHECK(contiguous(x).is_same(x));
  const Tensor y = contiguous(x, MemoryFormat::kChannelsLast);
  CHECK(contiguous(y, MemoryFormat::kChannelsLast).is_same(y));
  check_error(
      [] {
        contiguous(transpose(ones({2, 3}), 0, 1), MemoryFormat::kChannelsLast);
      },
      "channels-last: shape is (3, 2), expected (N, C, H, W)");
}

TEST_CASE("matrices of all widths are transposed", "[contiguous][transpose]") {
  for (const int64_t rows : {1, 3, 4, 15, 16, 17, 64, 65, 300}) {
    for (const int64_t cols : {1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257}) {
      Array x = filled_array({rows, cols});
      std::iota(x.values.begin(), x.values.end(), 0.0);
      for (const DType dtype : {DType::kUInt8, DType::kFloat32, DType::kFloat64, DType::kInt64}) {
        INFO(rows << " x " << cols << " " << name_of(dtype));
        Tensor t = in_layout(x, dtype, Layout::kPlain);
        const Tensor y = contiguous(transpose(t, 0, 1));
        for (const int64_t r : {int64_t{0}, rows / 2, rows - 1})
          for (int64_t c = 0; c < cols; ++c) REQUIRE(y.at({c, r}) == t.at({r, c}));
      }
    }
  }
}

double converted(double value, DType to) {
  if (to == DType::kUInt8) return std::trunc(value);  // rows stay within 0 .. 255
  if (to == DType::kInt64) return std::trunc(value);
  return value;
}

TEST_CASE("to converts every dtype to every other", "[device][to]") {
  for (const DType from : all_dtypes()) {
    for (const DType target : all_dtypes()) {
      for (const Shape& shape : {Shape{1025}, Shape{3, 5}, Shape{0}, Shape{2, 3, 4, 5}}) {
        check_op(
            {.name = std::string("to ") + std::string(name_of(target)) + " " + to_string(shape),
             .inputs = {{.shape = shape, .low = 0, .high = 200}},
             .op = [=](const Tensors& x) { return to(x[0], target); },
             .oracle =
                 [=](const Arrays& x) {
                   Array y = x[0];
                   for (double& value : y.values) value = converted(value, target);
                   return y;
                 },
             .dtypes = {from},
             .result_dtype = target,
             .gradient = false});
      }
    }
  }
}

TEST_CASE("to keeps infinities, NaN and the bounds of integers", "[to]") {
  const Tensor x = Tensor::from<double>({INFINITY, -INFINITY, NAN, 1e300, -3.7, 300.0}, {6});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto y = to(x, dtype).to_vector<double>();
    CHECK(y[0] == INFINITY);
    CHECK(y[1] == -INFINITY);
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == INFINITY);
  }
  CHECK(to(x, DType::kUInt8).to_vector<int64_t>() == std::vector<int64_t>{255, 0, 0, 255, 0, 255});
  CHECK(to(x, DType::kInt64).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MAX, INT64_MIN, 0, INT64_MAX, -3, 300});
  CHECK(to(Tensor::from<int64_t>({-1, 256}, {2}), DType::kUInt8).to_vector<int64_t>() ==
        std::vector<int64_t>{255, 0});
  CHECK(to(to(Tensor::from<float>({6e-8F}, {1}), DType::kFloat16), DType::kFloat32).item() ==
        0x1p-24);  // a subnormal half
}

TEST_CASE("to has a gradient in the dtype that it came from", "[to]") {
  Tensor x = ones({3}, DType::kFloat16);
  x.set_requires_grad();
  sum(mul(to(x, DType::kFloat32), 2.0)).backward();
  CHECK(x.grad().dtype() == DType::kFloat16);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
  CHECK_FALSE(to(x, DType::kInt64).requires_grad());
}

TEST_CASE("copy_", "[device][copy_]") {
  for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{1, 3}, Shape{}}) {
    check_op({.name = "copy_ " + to_string(shape),
              .inputs = {{.shape = shape}},
              .op =
                  [](const Tensors& x) {
                    Tensor y = zeros({2, 3}, x[0].dtype(), x[0].device());
                    copy_(y, x[0]);
                    return y;
                  },
              .oracle =
                  [](const Arrays& x) {
                    Array y = filled_array({2, 3});
                    for (int64_t i = 0; i < 6; ++i)
                      y[i] = x[0][i % 3 % x[0].n() + (x[0].n() == 6 ? i / 3 * 3 : 0)];
                    return y;
                  },
              .n_accumulated = 6,
              .dtypes = all_dtypes()});
  }
}

TEST_CASE("copy_ converts, and writes views and over itself", "[copy_]") {
  Tensor x = zeros({2, 3}, DType::kInt64);
  Tensor column = narrow(x, 1, 1, 1);
  copy_(column, Tensor::from<float>({1.9F, -2.9F}, {2, 1}));
  CHECK(x.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 0, -2, 0});
  Tensor y = arange(5);
  Tensor tail = narrow(y, 0, 1, 4);
  copy_(tail, narrow(y, 0, 0, 4));
  CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1, 2, 3});
  Tensor square = reshape(arange(4), {2, 2});
  copy_(square, transpose(square, 0, 1));
  CHECK(square.to_vector<int64_t>() == std::vector<int64_t>{0, 2, 1, 3});
}

TEST_CASE("copy_ refuses what cannot be", "[copy_]") {
  Tensor x = zeros({3});
  check_error([&] { copy_(x, ones({2})); }, "copy_: shape (2) does not broadcast to (3)");
  check_error([&] { copy_(x, ones({1, 3})); }, "copy_: shape (1, 3) does not broadcast to (3)");
  Tensor expanded = expand(ones({1}), {3});
  check_error([&] { copy_(expanded, ones({3})); },
              "copy_: target of shape (3) is an expanded view");
  Tensor leaf = ones({3});
  leaf.set_requires_grad();
  check_error([&] { copy_(leaf, ones({3})); }, "copy_: a tensor of shape (3) is a leaf");
  const NoGradGuard no_grad;
  copy_(leaf, zeros({3}));
  CHECK(leaf.to_vector<float>() == std::vector<float>{0, 0, 0});
}

TEST_CASE("full, zeros, ones and arange", "[full][zeros][ones][arange]") {
  for (const DType dtype : all_dtypes()) {
    INFO(name_of(dtype));
    for (const int64_t n : odd_sizes()) {
      CHECK(full({n, 2}, 3.0, dtype).to_vector<double>() ==
            std::vector<double>(static_cast<size_t>(2 * n), 3.0));
      CHECK(zeros({n}, dtype).to_vector<double>() == std::vector<double>(static_cast<size_t>(n)));
      CHECK(ones({n}, dtype).to_vector<double>() ==
            std::vector<double>(static_cast<size_t>(n), 1.0));
    }
    std::vector<double> expected(33);
    std::iota(expected.begin(), expected.end(), 0.0);
    CHECK(arange(33, dtype).to_vector<double>() == expected);
    CHECK(arange(0, dtype).shape() == Shape{0});
  }
  CHECK(full({}, 2.5).item() == 2.5);
  CHECK(arange(100000).to_vector<int64_t>().back() == 99999);
  check_error([] { arange(-1); }, "arange: n is -1");
  check_error([] { zeros({2, -1}); }, "negative size");
}

TEST_CASE("fill_", "[fill_]") {
  Tensor x = zeros({4, 5});
  Tensor column = narrow(x, 1, 2, 1);
  fill_(column, 7.0);
  CHECK(sum(x).item() == 28.0);
  CHECK(x.at({3, 2}) == 7.0);
  Tensor image = Tensor::empty({2, 3, 40, 200}, DType::kFloat32, MemoryFormat::kChannelsLast);
  fill_(image, 1.0);
  CHECK(sum(image).item() == 48000.0);
  Tensor leaf = ones({2});
  leaf.set_requires_grad();
  check_error([&] { fill_(leaf, 0.0); }, "fill_: a tensor of shape (2) is a leaf");
  Tensor y = mul(leaf, 2.0);
  fill_(y, 1.0);  // what y was no longer matters
  sum(mul(add(y, leaf), 3.0)).backward();
  CHECK(leaf.grad().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("rand and randn draw element i from draw i", "[rand][randn]") {
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 33, 1025, 70001}) {
    INFO(n);
    Rng uniform(11, RngPurpose::kUser);
    Rng normal(12, RngPurpose::kUser);
    std::vector<float> u(static_cast<size_t>(n));
    std::vector<float> z(static_cast<size_t>(n));
    for (float& value : u) value = uniform.next_uniform();
    for (float& value : z) value = normal.next_normal();
    for_each_thread_count([&](int) {
      CHECK(rand({n}, Rng(11, RngPurpose::kUser)).to_vector<float>() == u);
      CHECK(randn({n}, Rng(12, RngPurpose::kUser)).to_vector<float>() == z);
    });
  }
}

TEST_CASE("rand and randn are shifted, scaled and rounded once", "[rand][randn]") {
  const Rng rng(3, RngPurpose::kUser);
  const Tensor u = rand({2, 3}, rng, 0, 1, DType::kFloat64);
  CHECK(rand({2, 3}, rng, -1, 3, DType::kFloat64).to_vector<double>() ==
        add(mul(u, 4.0), -1.0).to_vector<double>());
  for (const DType dtype : floating_dtypes()) {
    check_close(to_array(rand({1000}, rng, 2, 5, dtype)),
                to_array(rand({1000}, rng, 2, 5, DType::kFloat64)), tol(dtype, 1));
    check_close(to_array(randn({1000}, rng, 2, 5, dtype)),
                to_array(randn({1000}, rng, 2, 5, DType::kFloat64)), tol(dtype, 1), 16.0);
  }
  const Tensor z = randn({100000}, rng, 1.0, 2.0);
  CHECK(std::abs(mean(z).item() - 1.0) < 0.03);
  CHECK(std::abs(mean(mul(add(z, -1.0), add(z, -1.0))).item() - 4.0) < 0.1);
  check_error([&] { rand({2}, rng, 0, 1, DType::kInt64); }, "rand: dtype is int64");
  check_error([&] { randn({2}, rng, 0, 1, DType::kUInt8); }, "randn: dtype is uint8");
}

TEST_CASE("pinned copies, in the order of x where that is dense", "[pinned][device]") {
  const Tensor x = randn({2, 3, 4, 5}, Rng(7, RngPurpose::kInit));
  for (const Tensor& source : {x, contiguous(x, MemoryFormat::kChannelsLast), transpose(x, 1, 3),
                               to(x, DType::kFloat16)}) {
    const Tensor copy = pinned(source);
    CHECK(copy.storage() != source.storage());
    CHECK(copy.device() == Device::cpu());
    check_same_bits(copy, source);
  }
  CHECK(pinned(x).strides() == x.strides());
  CHECK(pinned(zeros({0, 3})).numel() == 0);
}

}  // namespace
}  // namespace heddle
