#pragma once

#include <algorithm>

#include "heddle/kernels/conv2d.h"
#include "heddle/tests/kernels/product_oracle.h"
#include "heddle/tests/support/conv2d_products.h"

/// Convolutions for the tests of what computes them on a device, and their float64 oracle.
namespace heddle::testing {

struct ConvPair {
  int64_t h = 0, w = 0;
};

struct ConvCase {
  ConvPair image, kernel;
  int64_t batch = 1, in = 1, out = 1, groups = 1;
  ConvPair stride{1, 1}, pad{0, 0}, dilation{1, 1};
};

inline int64_t conv_output_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                                int64_t dilation) {
  return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

inline Conv2dGeometry geometry_of(DType dtype, const ConvCase& c) {
  Conv2dGeometry g;
  g.dtype = dtype;
  g.batch = c.batch;
  g.in_h = c.image.h;
  g.in_w = c.image.w;
  g.in_channels = c.in;
  g.out_channels = c.out;
  g.kernel_h = c.kernel.h;
  g.kernel_w = c.kernel.w;
  g.stride_h = c.stride.h;
  g.stride_w = c.stride.w;
  g.pad_h = c.pad.h;
  g.pad_w = c.pad.w;
  g.dilation_h = c.dilation.h;
  g.dilation_w = c.dilation.w;
  g.groups = c.groups;
  g.out_h = conv_output_size(g.in_h, g.kernel_h, g.stride_h, g.pad_h, g.dilation_h);
  g.out_w = conv_output_size(g.in_w, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w);
  return g;
}

struct ConvTensors {
  Conv2dGeometry g;
  Mirror x, w, dy, bias;

  ConvTensors(const Conv2dGeometry& geometry, int64_t offset)
      : g(geometry),
        x(g.dtype, {g.batch * g.in_h * g.in_w * g.in_channels}, offset),
        w(g.dtype, {g.out_channels * g.kernel_h * g.kernel_w * g.in_channels / g.groups}, offset),
        dy(g.dtype, {g.batch * g.out_h * g.out_w * g.out_channels}, offset),
        bias(g.dtype, {g.out_channels}, offset) {
    uint64_t seed = 1;
    for (Mirror* array : {&x, &w, &dy, &bias}) array->fill_random(seed++);
  }
};

inline std::vector<double> forward_oracle(const ConvTensors& t, bool with_bias, bool relu) {
  const std::vector<double> x = to_doubles(t.x, t.x.n());
  const std::vector<double> w = to_doubles(t.w, t.w.n());
  const std::vector<double> bias = to_doubles(t.bias, t.bias.n());
  std::vector<double> y(static_cast<size_t>(t.dy.n()), 0.0);
  each_conv2d_product(t.g, [&](int64_t iy, int64_t ix, int64_t iw) { y[iy] += x[ix] * w[iw]; });
  for (size_t i = 0; i < y.size(); ++i) {
    if (with_bias) y[i] += bias[i % bias.size()];
    if (relu) y[i] = std::max(0.0, y[i]);
  }
  return y;
}

struct ConvGradients {
  std::vector<double> x, w, bias;
};

inline ConvGradients backward_oracle(const ConvTensors& t) {
  const std::vector<double> x = to_doubles(t.x, t.x.n());
  const std::vector<double> w = to_doubles(t.w, t.w.n());
  const std::vector<double> dy = to_doubles(t.dy, t.dy.n());
  ConvGradients of{std::vector<double>(x.size(), 0.0), std::vector<double>(w.size(), 0.0),
                   std::vector<double>(static_cast<size_t>(t.g.out_channels), 0.0)};
  each_conv2d_product(t.g, [&](int64_t iy, int64_t ix, int64_t iw) {
    of.x[ix] += dy[iy] * w[iw];
    of.w[iw] += dy[iy] * x[ix];
  });
  for (size_t i = 0; i < dy.size(); ++i) of.bias[i % of.bias.size()] += dy[i];
  return of;
}

}  // namespace heddle::testing
