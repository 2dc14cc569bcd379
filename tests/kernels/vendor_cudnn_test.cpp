// The cuDNN versions, over cudasim's stand-in of it, against plain float64 loops: layouts, strides,
// and which engines are taken.
#include <algorithm>
#include <cmath>

#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/log_softmax.h"
#include "heddle/tests/kernels/conv2d_oracle.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using namespace testing;

/// The stand-in takes every case; a card's library may have no engine for some.
bool is_taken(bool supported) {
#ifdef __CUDASIM__
  REQUIRE(supported);
#endif
  return supported;
}

void check_convolution(DType dtype, const ConvCase& c, int64_t offset) {
  const ConvTensors t(geometry_of(dtype, c), offset);
  const Conv2dGeometry& g = t.g;
  CAPTURE(g.key(), offset);
  for (const bool bias_and_relu : {false, true}) {
    Mirror y(dtype, {t.dy.n()}, offset);
    fill_nan(y);
    const Conv2dForwardArgs args{g,
                                 y.device_data(),
                                 t.x.device_data(),
                                 t.w.device_data(),
                                 bias_and_relu ? t.bias.device_data() : nullptr,
                                 bias_and_relu};
    if (!is_taken(cudnn::conv2d_forward_supports(args, test_stream()))) return;
    cudnn::conv2d_forward(args, test_stream());
    expect(y, forward_oracle(t, bias_and_relu, bias_and_relu));
    CHECK_SAME(y, product_tolerance(dtype, g.kernel_h * g.kernel_w * g.in_channels));
  }
  Mirror dx(dtype, {t.x.n()}, offset), dw(dtype, {t.w.n()}, offset),
      db(dtype, {g.out_channels}, offset);
  for (Mirror* result : {&dx, &dw, &db}) fill_nan(*result);
  const Conv2dBackwardDataArgs data{g, dx.device_data(), t.dy.device_data(), t.w.device_data()};
  const Conv2dBackwardWeightArgs weight{g, dw.device_data(), db.device_data(), t.x.device_data(),
                                        t.dy.device_data()};
  if (!is_taken(cudnn::conv2d_backward_data_supports(data, test_stream()) &&
                cudnn::conv2d_backward_weight_supports(weight, test_stream())))
    return;
  cudnn::conv2d_backward_data(data, test_stream());
  cudnn::conv2d_backward_weight(weight, test_stream());
  const ConvGradients expected = backward_oracle(t);
  expect(dx, expected.x);
  expect(dw, expected.w);
  expect(db, expected.bias);
  CHECK_SAME(dx, product_tolerance(dtype, g.kernel_h * g.kernel_w * g.out_channels));
  CHECK_SAME(dw, product_tolerance(dtype, g.batch * g.out_h * g.out_w));
  CHECK_SAME(db, product_tolerance(dtype, g.batch * g.out_h * g.out_w));
}

TEST_CASE("convolution by cuDNN: forward and all gradients") {
  const std::vector<ConvCase> cases{
      {.image = {1, 1}, .kernel = {1, 1}},
      {.image = {6, 5}, .kernel = {3, 3}, .batch = 2, .in = 3, .out = 4, .pad = {1, 1}},
      {.image = {7, 9},
       .kernel = {3, 2},
       .batch = 2,
       .in = 2,
       .out = 3,
       .stride = {2, 3},
       .pad = {1, 0},
       .dilation = {1, 2}},
      {.image = {5, 4}, .kernel = {3, 3}, .in = 4, .out = 6, .groups = 2, .pad = {1, 1}},
  };
  for (const DType dtype : device_floats())
    for (const ConvCase& c : cases)
      for (const int64_t offset : {0, 1}) check_convolution(dtype, c, offset);
}

/// Whether a convolution of float32 by cuDNN keeps a factor that TF32 does not hold.
bool convolution_keeps_factors() {
  const ConvTensors t(geometry_of(DType::kFloat32, {.image = {1, 1}, .kernel = {1, 1}}), 0);
  Mirror x(DType::kFloat32, {1}), w(DType::kFloat32, {1}), y(DType::kFloat32, {1});
  x.fill([](int64_t) { return 1.0 + std::ldexp(1.0, -13); });
  w.fill([](int64_t) { return 1.0; });
  const Conv2dForwardArgs args{t.g, y.device_data(), x.device_data(), w.device_data(), nullptr};
  if (!is_taken(cudnn::conv2d_forward_supports(args, test_stream()))) return true;
  cudnn::conv2d_forward(args, test_stream());
  const std::vector<double> found = y.device_values();
  return std::find(found.begin(), found.end(), 1.0 + std::ldexp(1.0, -13)) != found.end();
}

TEST_CASE("cuDNN rounds factors of convolutions to TF32 where that is allowed") {
  REQUIRE(convolution_keeps_factors());
#ifdef __CUDASIM__  // on a card another engine may be proposed first
  {
    const test::Tf32Scope tf32;
    REQUIRE_FALSE(convolution_keeps_factors());
  }
#endif
  REQUIRE(convolution_keeps_factors());
}

void check_log_softmax(DType dtype, int64_t rows, int64_t cols) {
  CAPTURE(name_of(dtype), rows, cols);
  Mirror x(dtype, {rows, cols}), y(dtype, {rows, cols}), dy(dtype, {rows, cols}),
      dx(dtype, {rows, cols});
  x.fill_random(1, -30.0, 30.0);
  dy.fill_random(2);
  fill_nan(y);
  fill_nan(dx);
  const std::vector<double> in = to_doubles(x, x.n()), gradient = to_doubles(dy, dy.n());
  std::vector<double> result(in.size()), of_x(in.size());
  const auto width = static_cast<size_t>(cols);
  for (size_t first = 0; first < in.size(); first += width) {
    double sum = 0.0;
    for (size_t i = first; i < first + width; ++i) sum += std::exp(in[i]);
    for (size_t i = first; i < first + width; ++i) result[i] = in[i] - std::log(sum);
  }
  cudnn::log_softmax_forward({y.device_data(), x.device_data(), rows, cols, dtype}, test_stream());
  expect(y, result);
  CHECK_SAME(y, product_tolerance(dtype, cols));
  y.upload();  // what the gradient is of, as the oracle has it
  const std::vector<double> rounded = to_doubles(y, y.n());
  for (size_t first = 0; first < in.size(); first += width) {
    double sum = 0.0;
    for (size_t i = first; i < first + width; ++i) sum += gradient[i];
    for (size_t i = first; i < first + width; ++i)
      of_x[i] = gradient[i] - std::exp(rounded[i]) * sum;
  }
  cudnn::log_softmax_backward(
      {dx.device_data(), dy.device_data(), y.device_data(), rows, cols, dtype}, test_stream());
  expect(dx, of_x);
  CHECK_SAME(dx, product_tolerance(dtype, cols));
}

TEST_CASE("log_softmax by cuDNN: forward and gradient") {
  for (const DType dtype : device_floats()) {
    check_log_softmax(dtype, 1, 1);
    check_log_softmax(dtype, 3, 10);
    check_log_softmax(dtype, 33, 65);
  }
  REQUIRE_FALSE(cudnn::log_softmax_forward_supports({nullptr, nullptr, 0, 10, DType::kFloat32},
                                                    test_stream()));
  REQUIRE_FALSE(cudnn::log_softmax_forward_supports(
      {nullptr, nullptr, int64_t{1} << 20, int64_t{1} << 12, DType::kFloat32}, test_stream()));
  REQUIRE_FALSE(cudnn::log_softmax_backward_supports(
      {nullptr, nullptr, nullptr, 3, 10, DType::kFloat64}, test_stream()));
}

TEST_CASE("what cuDNN cannot take is left to the native kernels") {
  Conv2dGeometry g = geometry_of(DType::kFloat64, {.image = {2, 2}, .kernel = {1, 1}});
  REQUIRE_FALSE(
      cudnn::conv2d_forward_supports({g, nullptr, nullptr, nullptr, nullptr}, test_stream()));
  g.dtype = DType::kFloat32;
  g.batch = 0;
  REQUIRE_FALSE(
      cudnn::conv2d_backward_data_supports({g, nullptr, nullptr, nullptr}, test_stream()));
}

#ifdef __CUDASIM__  // on a device `auto` chooses what is faster, and plans may need nothing

/// Bytes that a convolution takes beside its operands: the stand-in's plans ask for some.
int64_t scratch_of_convolution(Provider provider) {
  const test::ProviderScope scope(provider);
  const ConvTensors t(
      geometry_of(DType::kFloat32, {.image = {3, 3}, .kernel = {3, 3}, .in = 8, .out = 2}), 0);
  Mirror y(DType::kFloat32, {t.dy.n()});
  const Conv2dForwardArgs args{t.g, y.device_data(), t.x.device_data(), t.w.device_data(), nullptr};
  const int64_t scratch =
      scratch_during([&] { HEDDLE_DISPATCH_VENDORS(kTestDevice, conv2d_forward, args, cudnn); });
  expect(y, forward_oracle(t, false, false));
  CHECK_SAME(y, product_tolerance(DType::kFloat32, 72));
  return scratch;
}

TEST_CASE("the provider setting chooses cuDNN on a device") {
  REQUIRE(scratch_of_convolution(Provider::kVendor) >= 512);
  REQUIRE(scratch_of_convolution(Provider::kNative) < 512);
  REQUIRE(scratch_of_convolution(Provider::kAuto) < 512);  // cudasim cannot time
}

#endif

}  // namespace
}  // namespace heddle
