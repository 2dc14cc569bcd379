#include "heddle/kernels/conv2d.h"

#include "heddle/kernels/device/conv2d.h"
#include "heddle/tests/kernels/conv2d_oracle.h"

namespace heddle {
namespace {

using namespace testing;

using Case = ConvCase;
using Tensors = ConvTensors;

void check_forward(const Tensors& t, bool with_bias, bool relu, int64_t offset) {
  const Conv2dGeometry& g = t.g;
  CAPTURE(with_bias, relu);
  Mirror y(g.dtype, {t.dy.n()}, offset);
  fill_nan(y);
  cuda::conv2d_forward({g, y.device_data(), t.x.device_data(), t.w.device_data(),
                        with_bias ? t.bias.device_data() : nullptr, relu},
                       test_stream());
  expect(y, forward_oracle(t, with_bias, relu));
  CHECK_SAME(y, product_tolerance(g.dtype, g.kernel_h * g.kernel_w * g.in_channels));
}

void check_backward(const Tensors& t, int64_t offset) {
  const Conv2dGeometry& g = t.g;
  Mirror dx(g.dtype, {t.x.n()}, offset), dw(g.dtype, {t.w.n()}, offset),
      db(g.dtype, {g.out_channels}, offset);
  for (Mirror* result : {&dx, &dw, &db}) fill_nan(*result);
  cuda::conv2d_backward_data({g, dx.device_data(), t.dy.device_data(), t.w.device_data()},
                             test_stream());
  cuda::conv2d_backward_weight(
      {g, dw.device_data(), db.device_data(), t.x.device_data(), t.dy.device_data()},
      test_stream());
  const ConvGradients expected = backward_oracle(t);
  expect(dx, expected.x);
  expect(dw, expected.w);
  expect(db, expected.bias);
  const int64_t pixels = g.batch * g.out_h * g.out_w;
  CHECK_SAME(dx, product_tolerance(g.dtype, g.kernel_h * g.kernel_w * g.out_channels));
  CHECK_SAME(dw, product_tolerance(g.dtype, pixels));
  CHECK_SAME(db, product_tolerance(g.dtype, pixels));
}

void check_conv2d(const Case& c, int64_t offset = 0) {
  for (const DType dtype : device_floats()) {
    const Conv2dGeometry g = geometry_of(dtype, c);
    CAPTURE(name_of(dtype), g.batch, g.in_h, g.in_w, g.in_channels, g.out_channels, g.kernel_h,
            g.kernel_w, g.stride_h, g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w,
            g.groups, offset);
    const Tensors t(g, offset);
    check_forward(t, true, false, offset);
    check_forward(t, false, true, offset);
    check_backward(t, offset);
  }
}

TEST_CASE("conv2d on a device: whole chunks of channels", "[conv2d]") {
  check_conv2d({.image = {6, 5}, .kernel = {3, 3}, .batch = 2, .in = 16, .out = 24, .pad = {1, 1}});
  check_conv2d({.image = {4, 4}, .kernel = {1, 1}, .batch = 3, .in = 8, .out = 72});
  check_conv2d({.image = {3, 3}, .kernel = {3, 3}, .batch = 5, .in = 40, .out = 8, .pad = {1, 1}});
  check_conv2d({.image = {9, 8}, .kernel = {2, 3}, .batch = 2, .in = 8, .out = 16, .pad = {0, 2}});
}

TEST_CASE("conv2d on a device: odd channels and unaligned memory", "[conv2d]") {
  check_conv2d({.image = {5, 4}, .kernel = {3, 3}, .batch = 2, .in = 5, .out = 7, .pad = {1, 1}});
  check_conv2d({.image = {5, 4}, .kernel = {3, 2}, .in = 9, .out = 65});
  check_conv2d({.image = {5, 5}, .kernel = {3, 3}, .in = 8, .out = 16, .pad = {1, 1}}, 1);
  check_conv2d({.image = {5, 5}, .kernel = {3, 3}, .in = 3, .out = 10, .pad = {1, 1}}, 3);
}

TEST_CASE("conv2d on a device: few input channels", "[conv2d]") {
  check_conv2d({.image = {8, 9}, .kernel = {3, 3}, .batch = 2, .in = 3, .out = 32, .pad = {1, 1}});
  check_conv2d({.image = {11, 7}, .kernel = {5, 3}, .in = 1, .out = 6, .stride = {2, 1}});
  check_conv2d({.image = {9, 9},
                .kernel = {3, 3},
                .in = 2,
                .out = 40,
                .stride = {3, 2},
                .pad = {2, 1},
                .dilation = {2, 3}});
}

TEST_CASE("conv2d on a device: strides and dilations", "[conv2d]") {
  check_conv2d({.image = {9, 8},
                .kernel = {3, 3},
                .batch = 2,
                .in = 8,
                .out = 8,
                .stride = {2, 2},
                .pad = {1, 1}});
  check_conv2d(
      {.image = {7, 7}, .kernel = {1, 1}, .batch = 2, .in = 8, .out = 16, .stride = {2, 2}});
  check_conv2d({.image = {10, 11},
                .kernel = {3, 2},
                .in = 8,
                .out = 8,
                .stride = {2, 3},
                .pad = {2, 1},
                .dilation = {3, 2}});
  check_conv2d({.image = {12, 6},
                .kernel = {4, 3},
                .in = 4,
                .out = 12,
                .stride = {4, 1},
                .pad = {1, 2},
                .dilation = {2, 2}});
  check_conv2d({.image = {8, 8}, .kernel = {2, 2}, .in = 4, .out = 4, .stride = {5, 4}});
}

TEST_CASE("conv2d on a device: groups", "[conv2d]") {
  check_conv2d({.image = {5, 5},
                .kernel = {3, 3},
                .batch = 2,
                .in = 16,
                .out = 32,
                .groups = 2,
                .pad = {1, 1}});
  check_conv2d({.image = {5, 4}, .kernel = {3, 3}, .in = 6, .out = 9, .groups = 3, .pad = {1, 1}});
  check_conv2d({.image = {6, 6},
                .kernel = {3, 3},
                .in = 5,
                .out = 10,
                .groups = 5,
                .stride = {2, 2},
                .pad = {1, 1}});
}

TEST_CASE("conv2d on a device: more taps than a word has bits", "[conv2d]") {
  check_conv2d({.image = {10, 9}, .kernel = {7, 7}, .in = 8, .out = 8, .pad = {3, 3}});
  check_conv2d({.image = {4, 70}, .kernel = {1, 65}, .in = 4, .out = 4});
  check_conv2d({.image = {9, 9}, .kernel = {9, 9}, .in = 3, .out = 8, .pad = {1, 1}});
}

TEST_CASE("conv2d on a device: the large tiles, and parts of the depth", "[conv2d]") {
  check_conv2d({.image = {20, 21}, .kernel = {1, 1}, .batch = 20, .in = 8, .out = 40});
  check_conv2d({.image = {16, 16}, .kernel = {1, 1}, .batch = 33, .in = 8, .out = 136});
  check_conv2d({.image = {4, 4}, .kernel = {3, 3}, .in = 128, .out = 16, .pad = {1, 1}});
}

TEST_CASE("conv2d on a device: an empty batch", "[conv2d]") {
  check_conv2d({.image = {4, 4}, .kernel = {3, 3}, .batch = 0, .in = 8, .out = 8});
  check_conv2d({.image = {4, 4}, .kernel = {3, 3}, .batch = 0, .in = 3, .out = 5, .groups = 1});
}

/// Values of a tensor of one channel, one image.
void set(Mirror& array, const std::vector<double>& values) {
  expect(array, values);
  array.upload();
}

void check_values(const Case& c, const std::vector<double>& x, const std::vector<double>& w,
                  const std::vector<double>& y, const std::vector<double>& dx,
                  const std::vector<double>& dw) {
  for (const DType dtype : device_floats()) {
    Tensors t(geometry_of(dtype, c), 0);
    CAPTURE(name_of(dtype));
    set(t.x, x);
    set(t.w, w);
    set(t.dy, std::vector<double>(y.size(), 1.0));
    Mirror found_y(dtype, {t.dy.n()}), found_dx(dtype, {t.x.n()}), found_dw(dtype, {t.w.n()});
    cuda::conv2d_forward(
        {t.g, found_y.device_data(), t.x.device_data(), t.w.device_data(), nullptr}, test_stream());
    cuda::conv2d_backward_data({t.g, found_dx.device_data(), t.dy.device_data(), t.w.device_data()},
                               test_stream());
    cuda::conv2d_backward_weight(
        {t.g, found_dw.device_data(), nullptr, t.x.device_data(), t.dy.device_data()},
        test_stream());
    expect(found_y, y);
    expect(found_dx, dx);
    expect(found_dw, dw);
    CHECK_SAME_BITS(found_y);  // whole numbers
    CHECK_SAME_BITS(found_dx);
    CHECK_SAME_BITS(found_dw);
  }
}

std::vector<double> count(int64_t n, double first) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(first + static_cast<double>(i));
  return values;
}

TEST_CASE("conv2d on a device: backward where the stride leaves a rest", "[conv2d]") {
  std::vector<double> dx;
  const std::vector<double> once{1, 1, 2, 1, 1, 0};
  for (const double a : once)
    for (const double b : once) dx.push_back(a * b);
  check_values({.image = {6, 6}, .kernel = {3, 3}, .stride = {2, 2}}, count(36, 0),
               std::vector<double>(9, 1.0), {63, 81, 171, 189}, dx,
               {28, 32, 36, 52, 56, 60, 76, 80, 84});
}

TEST_CASE("conv2d on a device: backward where stride and dilation differ", "[conv2d]") {
  check_values({.image = {1, 8}, .kernel = {1, 2}, .stride = {1, 2}, .dilation = {1, 3}},
               count(8, 0), {1, 10}, {30, 52, 74}, {1, 0, 1, 10, 1, 10, 0, 10}, {6, 15});
}

TEST_CASE("conv2d on a device: backward where nothing is square", "[conv2d]") {
  check_values({.image = {2, 3}, .kernel = {1, 2}}, count(6, 1), {1, 10}, {21, 32, 54, 65},
               {1, 11, 10, 1, 11, 10}, {12, 16});
  check_values({.image = {3, 3}, .kernel = {1, 3}, .stride = {2, 1}, .pad = {0, 1}}, count(9, 1),
               {1, 2, 3}, {8, 14, 8, 38, 50, 26}, {3, 6, 5, 0, 0, 0, 3, 6, 5}, {18, 30, 22});
}

TEST_CASE("conv2d on a device has the same bits each time", "[conv2d]") {
  for (const DType dtype : device_floats()) {
    const Tensors t(
        geometry_of(
            dtype,
            {.image = {16, 16}, .kernel = {3, 3}, .batch = 5, .in = 8, .out = 8, .pad = {1, 1}}),
        0);
    std::vector<std::byte> first;
    for (int run = 0; run < 2; ++run) {
      Mirror dw(dtype, {t.w.n()}), db(dtype, {8});
      cuda::conv2d_backward_weight(
          {t.g, dw.device_data(), db.device_data(), t.x.device_data(), t.dy.device_data()},
          test_stream());
      if (run == 0) first = dw.device_bytes();
      CHECK(dw.device_bytes() == first);
    }
  }
}

TEST_CASE("conv2d on a device refuses what it cannot count or compute", "[conv2d]") {
  Conv2dGeometry g = geometry_of(DType::kFloat64, {.image = {4, 4}, .kernel = {1, 1}});
  CHECK_THROWS_WITH(cuda::conv2d_forward({g, nullptr, nullptr, nullptr, nullptr}, test_stream()),
                    ContainsSubstring("conv2d_forward: float64 is computed on the CPU"));
  g.pad_h = int64_t{1} << 29;
  CHECK_THROWS_WITH(cuda::conv2d_forward({g, nullptr, nullptr, nullptr, nullptr}, test_stream()),
                    ContainsSubstring("conv2d_forward: the padded image is 1073741828 x 4"));
}

TEST_CASE("conv2d on a device: the phases of a stride share its taps out", "[conv2d]") {
  for (int64_t stride = 1; stride < 6; ++stride)
    for (int64_t dilation = 1; dilation < 5; ++dilation)
      for (int64_t kernel = 1; kernel < 7; ++kernel)
        for (int64_t pad = 0; pad < 4; ++pad) {
          constexpr int64_t kIn = 23;
          int64_t n_reached = 0;
          for (int64_t first = 0; first < stride; ++first) {
            const auto phase = cuda::find_phase(first, kIn, kernel, stride, pad, dilation);
            for (int64_t i = 0; i < phase.count; ++i)
              for (int64_t j = 0; j < phase.taps; ++j) {
                const int64_t in = first + stride * i;
                const int64_t tap = phase.tap + phase.tap_step * j;
                const int64_t out = i + phase.offset + phase.step * j;
                REQUIRE(out * stride - pad + tap * dilation == in);
                REQUIRE(tap < kernel);
                ++n_reached;
              }
          }
          int64_t n_expected = 0;
          for (int64_t in = 0; in < kIn; ++in)
            for (int64_t tap = 0; tap < kernel; ++tap)
              if ((in + pad - tap * dilation) % stride == 0) ++n_expected;
          REQUIRE(n_reached == n_expected);
        }
}

}  // namespace
}  // namespace heddle
