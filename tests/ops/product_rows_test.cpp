// conv2d, linear and matmul by the op harness: as written, on every device, in every dtype. The
// kernels' own sizes are in conv2d_test, linear_test and matmul_test.
#include <algorithm>

#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle::testing {
namespace {

void rectify(Array& y) {
  for (double& value : y.values) value = std::max(0.0, value);
}

struct LinearRow {
  int64_t rows, in, out;
  bool relu = false;
};

Array linear_oracle(const LinearRow& r, const Arrays& x) {
  Array y = filled_array({r.rows, r.out});
  for (int64_t m = 0; m < r.rows; ++m)
    for (int64_t o = 0; o < r.out; ++o) {
      double& total = y[m * r.out + o];
      total = x[2][o];
      for (int64_t i = 0; i < r.in; ++i) total += x[0][m * r.in + i] * x[1][o * r.in + i];
    }
  if (r.relu) rectify(y);
  return y;
}

void check_linear(const LinearRow& r) {
  check_op({.name = fmt::format("linear {} {} {}", r.rows, r.in, r.out),
            .inputs = {{.shape = {r.rows, r.in}}, {.shape = {r.out, r.in}}, {.shape = {r.out}}},
            .op = [=](const Tensors& x) { return linear(x[0], x[1], x[2], r.relu); },
            .oracle = [=](const Arrays& x) { return linear_oracle(r, x); },
            .n_accumulated = 4 * std::max({r.rows, r.in, r.out}),  // products of up to 4
            .gradient = !r.relu});
}

struct MatmulRow {
  int64_t m, n, k;
};

Array matmul_oracle(const MatmulRow& r, const Arrays& x) {
  Array y = filled_array({r.m, r.n});
  for (int64_t m = 0; m < r.m; ++m)
    for (int64_t n = 0; n < r.n; ++n)
      for (int64_t k = 0; k < r.k; ++k) y[m * r.n + n] += x[0][m * r.k + k] * x[1][k * r.n + n];
  return y;
}

void check_matmul(const MatmulRow& r) {
  check_op({.name = fmt::format("matmul {} {} {}", r.m, r.n, r.k),
            .inputs = {{.shape = {r.m, r.k}}, {.shape = {r.k, r.n}}},
            .op = [](const Tensors& x) { return matmul(x[0], x[1]); },
            .oracle = [=](const Arrays& x) { return matmul_oracle(r, x); },
            .n_accumulated = 4 * std::max({r.m, r.n, r.k, int64_t{1}})});
}

struct ConvRow {
  Shape x, w;
  Conv2dOptions options = {};
};

int64_t out_size(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dilation) {
  return (in + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
}

/// The sum for one element of y.
double conv2d_sum(const ConvRow& r, const Arrays& x, int64_t n, int64_t o, int64_t i, int64_t j) {
  const auto& [stride, padding, dilation, groups, relu] = r.options;
  const int64_t first_channel = o / (r.w[0] / groups) * r.w[1];
  double total = x[2][o];
  for (int64_t c = 0; c < r.w[1]; ++c)
    for (int64_t a = 0; a < r.w[2]; ++a)
      for (int64_t b = 0; b < r.w[3]; ++b) {
        const int64_t h = i * stride.first - padding.first + a * dilation.first;
        const int64_t w = j * stride.second - padding.second + b * dilation.second;
        if (h < 0 || h >= r.x[2] || w < 0 || w >= r.x[3]) continue;
        total += x[0][((n * r.x[1] + first_channel + c) * r.x[2] + h) * r.x[3] + w] *
                 x[1][((o * r.w[1] + c) * r.w[2] + a) * r.w[3] + b];
      }
  return relu ? std::max(0.0, total) : total;
}

Array conv2d_oracle(const ConvRow& r, const Arrays& x) {
  const Conv2dOptions& options = r.options;
  const int64_t out_h =
      out_size(r.x[2], r.w[2], options.stride.first, options.padding.first, options.dilation.first);
  const int64_t out_w = out_size(r.x[3], r.w[3], options.stride.second, options.padding.second,
                                 options.dilation.second);
  Array y{{r.x[0], r.w[0], out_h, out_w}, {}};
  for (int64_t n = 0; n < r.x[0]; ++n)
    for (int64_t o = 0; o < r.w[0]; ++o)
      for (int64_t i = 0; i < out_h; ++i)
        for (int64_t j = 0; j < out_w; ++j) y.values.push_back(conv2d_sum(r, x, n, o, i, j));
  return y;
}

void check_conv2d(const ConvRow& r) {
  const int64_t taps = r.w[1] * r.w[2] * r.w[3];
  check_op({.name = fmt::format("conv2d {} {} stride {} groups {}", r.x, r.w,
                                r.options.stride.first, r.options.groups),
            .inputs = {{.shape = r.x}, {.shape = r.w}, {.shape = {r.w[0]}}},
            .op = [=](const Tensors& x) { return conv2d(x[0], x[1], x[2], r.options); },
            .oracle = [=](const Arrays& x) { return conv2d_oracle(r, x); },
            .n_accumulated = 4 * std::max(taps, r.w[0] * r.w[2] * r.w[3]),
            .gradient = !r.options.fuse_relu});
}

TEST_CASE("linear follows its oracle", "[device][linear]") {
  const LinearRow rows[] = {{1, 1, 1},   {0, 5, 3},   {3, 33, 10},      {31, 17, 32},
                            {33, 31, 1}, {8, 64, 16}, {9, 40, 12, true}};
  for (const LinearRow& row : rows) check_linear(row);
}

TEST_CASE("matmul follows its oracle", "[device][matmul]") {
  const MatmulRow rows[] = {{1, 1, 1}, {0, 3, 4}, {3, 2, 0}, {33, 31, 9}, {16, 24, 32}};
  for (const MatmulRow& row : rows) check_matmul(row);
}

TEST_CASE("conv2d follows its oracle", "[device][conv2d]") {
  const ConvRow rows[] = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{0, 3, 4, 4}, {2, 3, 3, 3}, {.padding = {1, 1}}},
      {{2, 3, 5, 4}, {8, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 16, 6, 5}, {24, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {{1, 5, 7, 8}, {9, 5, 3, 2}, {.stride = {2, 1}, .dilation = {1, 2}}},
      {{2, 6, 5, 5}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {{1, 8, 4, 4}, {8, 8, 1, 1}, {.fuse_relu = true}},
  };
  for (const ConvRow& row : rows) check_conv2d(row);
}

}  // namespace
}  // namespace heddle::testing
