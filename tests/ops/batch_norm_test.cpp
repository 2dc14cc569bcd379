#include <cmath>
#include <limits>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

/// Where element i of an image batch or of (N, C) has its channel.
int64_t channel_of(const Shape& shape, int64_t i) {
  const int64_t pixels = shape.size() == 4 ? shape[2] * shape[3] : 1;
  return i / pixels % shape[1];
}

struct Statistics {
  std::vector<double> mean, var;
};

Statistics statistics_of(const Array& x) {
  const auto channels = static_cast<size_t>(x.shape[1]);
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  const double rows = static_cast<double>(x.n()) / static_cast<double>(channels);
  for (int64_t i = 0; i < x.n(); ++i)
    s.mean[static_cast<size_t>(channel_of(x.shape, i))] += x[i] / rows;
  for (int64_t i = 0; i < x.n(); ++i) {
    const auto c = static_cast<size_t>(channel_of(x.shape, i));
    s.var[c] += (x[i] - s.mean[c]) * (x[i] - s.mean[c]) / rows;
  }
  return s;
}

Array oracle(const Array& x, const Statistics& s, const Array& weight, const Array& bias,
             const BatchNormOptions& options) {
  Array y = x;
  for (int64_t i = 0; i < x.n(); ++i) {
    const int64_t c = channel_of(x.shape, i);
    const auto at = static_cast<size_t>(c);
    y[i] = (x[i] - s.mean[at]) / std::sqrt(s.var[at] + options.eps) * weight[c] + bias[c];
    if (options.fuse_relu && y[i] < 0.0) y[i] = 0.0;
  }
  return y;
}

Tensor here(const std::vector<float>& values, const Shape& shape) {
  return on_test_device(Tensor::from<float>(values, shape));
}

/// Per-channel values.
Tensor filled(int64_t channels, double value) { return on_test_device(full({channels}, value)); }

Tensor without_running(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const BatchNormOptions& options) {
  Tensor none_mean, none_var;
  return batch_norm(x, weight, bias, none_mean, none_var, options);
}

void check_training(const Shape& shape, bool relu) {
  const BatchNormOptions options{.fuse_relu = relu};
  check_op(
      {.name = fmt::format("batch_norm {}{}", shape, relu ? " relu" : ""),
       .inputs = {{.shape = shape},
                  {.shape = {shape[1]}, .low = 0.5, .high = 1.5},
                  {.shape = {shape[1]}, .low = -0.5, .high = 0.5}},
       .op = [=](const Tensors& x) { return without_running(x[0], x[1], x[2], options); },
       .oracle =
           [=](const Arrays& x) { return oracle(x[0], statistics_of(x[0]), x[1], x[2], options); },
       .n_accumulated = numel(shape) / std::max<int64_t>(1, shape[1])});
}

void check_evaluation(const Shape& shape, bool relu) {
  const BatchNormOptions options{.training = false, .eps = 0.01, .fuse_relu = relu};
  const int64_t channels = shape[1];
  Statistics s;
  for (int64_t c = 0; c < channels; ++c) {
    s.mean.push_back(0.25 * static_cast<double>(c % 5) - 0.5);
    s.var.push_back(0.5 + 0.125 * static_cast<double>(c % 7));
  }
  check_op({.name = fmt::format("batch_norm evaluation {}{}", shape, relu ? " relu" : ""),
            .inputs = {{.shape = shape},
                       {.shape = {channels}, .low = 0.5, .high = 1.5},
                       {.shape = {channels}, .low = -0.5, .high = 0.5}},
            .op =
                [=](const Tensors& x) {
                  const DType dtype =
                      x[0].dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
                  Tensor mean = to(Tensor::from<double>(s.mean, {channels}), dtype);
                  mean = to(mean, x[0].device());
                  Tensor var = to(Tensor::from<double>(s.var, {channels}), dtype);
                  var = to(var, x[0].device());
                  return batch_norm(x[0], x[1], x[2], mean, var, options);
                },
            .oracle = [=](const Arrays& x) { return oracle(x[0], s, x[1], x[2], options); }});
}

}  // namespace

TEST_CASE("batch_norm follows its oracle in training", "[device][batch_norm]") {
  const std::vector<Shape> shapes{{2, 3, 4, 5}, {3, 33, 2, 2},  {33, 31},       {1025, 2},
                                  {33, 1025},   {1, 16, 33, 7}, {5, 1, 31, 33}, {1, 4, 2, 2},
                                  {3, 24, 2, 5}};  // channels in whole vectors: by cuDNN too
  for (const Shape& shape : shapes) {
    check_training(shape, false);
    check_training(shape, true);
  }
}

TEST_CASE("batch_norm follows its oracle in evaluation", "[device][batch_norm]") {
  const std::vector<Shape> shapes{{2, 3, 4, 5}, {3, 33, 2, 2}, {31, 17}, {1, 1025}, {0, 4}};
  for (const Shape& shape : shapes) {
    check_evaluation(shape, false);
    check_evaluation(shape, true);
  }
}

TEST_CASE("batch_norm normalises by the biased and keeps the unbiased variance",
          "[device][batch_norm]") {
  for_each_isa([] {
    Tensor mean = filled(1, 0.0), var = filled(1, 1.0);
    const Tensor y = batch_norm(here({1, 3}, {2, 1}), {}, {}, mean, var);
    CHECK(y.at({0, 0}) == Approx(-0.999995).epsilon(1e-6));
    CHECK(y.at({1, 0}) == Approx(0.999995).epsilon(1e-6));
    CHECK(mean.item() == Approx(0.2).epsilon(1e-6));
    CHECK(var.item() == Approx(1.1).epsilon(1e-6));
    CHECK(mean.version() > 0);
  });
}

TEST_CASE("One value a channel is refused in training and leaves the statistics",
          "[device][batch_norm]") {
  Tensor mean = filled(3, 0.5), var = filled(3, 2.0);
  const auto ones = [](const Shape& shape) { return on_test_device(heddle::ones(shape)); };
  check_error(
      [&] {
        batch_norm(ones({1, 3, 1, 1}), {}, {}, mean, var);
      },
      "batch_norm: x is (1, 3, 1, 1), one value for each channel");
  check_error([&] { batch_norm(ones({1, 3}), {}, {}, mean, var); }, "batch_norm: x is (1, 3)");
  CHECK(mean.to_vector<float>() == std::vector<float>(3, 0.5F));
  CHECK(var.to_vector<float>() == std::vector<float>(3, 2.0F));
  CHECK(batch_norm(ones({1, 3, 2, 2}), {}, {}, mean, var).shape() == Shape{1, 3, 2, 2});
  CHECK(batch_norm(ones({1, 3}), {}, {}, mean, var, {.training = false}).shape() == Shape{1, 3});
}

TEST_CASE("An empty batch leaves the statistics and gives zero gradients", "[device][batch_norm]") {
  Tensor mean = filled(3, 0.0), var = filled(3, 1.0);
  Tensor weight = filled(3, 1.0).set_requires_grad(), bias = filled(3, 0.0).set_requires_grad();
  Tensor x = on_test_device(zeros({0, 3, 4, 4}));
  x.set_requires_grad();
  sum(batch_norm(x, weight, bias, mean, var)).backward();
  CHECK(mean.to_vector<float>() == std::vector<float>(3, 0.0F));
  CHECK(var.to_vector<float>() == std::vector<float>(3, 1.0F));
  CHECK(x.grad().shape() == Shape{0, 3, 4, 4});
  CHECK(weight.grad().to_vector<float>() == std::vector<float>(3, 0.0F));
  CHECK(bias.grad().to_vector<float>() == std::vector<float>(3, 0.0F));
}

TEST_CASE("batch_norm keeps its digits where the mean is large", "[device][batch_norm]") {
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) values.push_back(10000.0 + (i % 2 == 0 ? 0.5 : -0.5));
  const Array x{{5000, 1}, values};
  for_each_isa([&] {
    Tensor mean = filled(1, 0.0), var = filled(1, 0.0);
    const Tensor y = batch_norm(in_layout(x, DType::kFloat32, Layout::kPlain, test_device()), {},
                                {}, mean, var, {.momentum = 1.0});
    CHECK(mean.item() == Approx(10000.0).epsilon(1e-6));
    CHECK(var.item() == Approx(0.25 * 5000 / 4999).epsilon(1e-4));
    CHECK(y.at({0, 0}) == Approx(1.0).epsilon(1e-3));
  });
}

TEST_CASE("One outlier does not spoil the variance", "[device][batch_norm]") {
  std::vector<double> values{1e4};
  for (int i = 1; i < 4096; ++i) values.push_back(i % 2 == 0 ? 1.0 : -1.0);
  const Array x{{4096, 1}, values};
  Tensor mean = filled(1, 0.0), var = filled(1, 0.0);
  batch_norm(in_layout(x, DType::kFloat32, Layout::kPlain, test_device()), {}, {}, mean, var,
             {.momentum = 1.0});
  CHECK(var.item() == Approx(statistics_of(x).var[0] * 4096 / 4095).epsilon(1e-5));
}

TEST_CASE("batch_norm of float16 sums in float32 and keeps float32 statistics",
          "[device][batch_norm]") {
  Tensor mean = filled(2, 0.0), var = filled(2, 1.0);
  std::vector<double> values;
  for (int i = 0; i < 4096; ++i) values.push_back(i % 4 < 2 ? 30000.0 : 30064.0);
  const Tensor x = in_layout({{2048, 2}, values}, DType::kFloat16, Layout::kPlain, test_device());
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.momentum = 1.0});
  CHECK(name_of(y.dtype()) == "float16");
  CHECK(mean.at({0}) == Approx(30032.0).epsilon(1e-4));
  CHECK(var.at({1}) == Approx(1024.0 * 2048 / 2047).epsilon(1e-4));
  CHECK(all_finite(y));
}

TEST_CASE("batch_norm works by the batch where there are no running statistics", "[batch_norm]") {
  const Tensor x = Tensor::from<float>({1, 3}, {2, 1});
  CHECK(without_running(x, {}, {}, {.training = false}).at({1, 0}) ==
        Approx(0.999995).epsilon(1e-6));
}

TEST_CASE("batch_norm's fused ReLU passes NaN on", "[device][batch_norm]") {
  Tensor mean = filled(1, 0.0), var = filled(1, 1.0);
  Tensor x = here({std::nanf(""), -1, 2}, {3, 1});
  x.set_requires_grad();
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.training = false, .fuse_relu = true});
  CHECK(std::isnan(y.at({0, 0})));
  CHECK(y.at({1, 0}) == 0.0);
  y.backward(on_test_device(ones({3, 1})));
  CHECK(x.grad().at({0, 0}) == Approx(1.0).epsilon(1e-4));
  CHECK(x.grad().at({1, 0}) == 0.0);
  CHECK(x.grad().at({2, 0}) == Approx(1.0).epsilon(1e-4));
}

TEST_CASE("Moving the running statistics later does not harm an evaluation's backward",
          "[batch_norm]") {
  Tensor mean = zeros({1}), var = ones({1});
  Tensor x = Tensor::from<float>({1, 2, 4}, {3, 1});
  x.set_requires_grad();
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.training = false});
  batch_norm(x.detach(), {}, {}, mean, var);
  y.backward(ones({3, 1}));
  CHECK(x.grad().at({0, 0}) == Approx(0.999995).epsilon(1e-6));
}

TEST_CASE("batch_norm refuses wrong shapes, dtypes and options", "[batch_norm]") {
  const Tensor x = ones({4, 3});
  Tensor none, three = ones({3}), two = ones({2}), half = ones({3}, DType::kFloat16);
  check_error([&] { batch_norm(x, two, {}, none, none); },
              "batch_norm: weight is (2), expected (3)");
  check_error([&] { batch_norm(x, {}, two, none, none); }, "batch_norm: bias is (2)");
  check_error([&] { batch_norm(x, {}, {}, two, three); }, "batch_norm: running_mean is (2)");
  check_error([&] { batch_norm(x, {}, {}, three, half); }, "running_var is float16");
  check_error([&] { batch_norm(x, {}, {}, three, none); }, "expected both or none");
  check_error([&] { batch_norm(ones({4, 3, 2}), {}, {}, none, none); }, "x is (4, 3, 2)");
  check_error([&] { batch_norm(ones({4, 3}, DType::kUInt8), {}, {}, none, none); }, "x is uint8");
  check_error([&] { batch_norm(x, {}, {}, none, none, {.momentum = 2.0}); }, "momentum 2");
  check_error([&] { batch_norm(x, {}, {}, none, none, {.eps = -1.0}); }, "eps is -1");
}

}  // namespace heddle::testing
