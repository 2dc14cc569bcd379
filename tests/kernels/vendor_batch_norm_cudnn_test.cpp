// Batch-norm by cuDNN, over cudasim's stand-in of it, against the CPU's kernels: results,
// statistics and gradients, and what is left to the native kernels.
#include <algorithm>
#include <cmath>

#include "heddle/kernels/batch_norm.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using namespace testing;

constexpr double kEps = 1e-3;
constexpr DType kFloat = DType::kFloat32;

struct Channels {
  Mirror weight, bias, mean, var, inv_std, dw, db;

  explicit Channels(int64_t n, int64_t offset = 0)
      : weight(kFloat, {n}, offset),
        bias(kFloat, {n}),
        mean(kFloat, {n}),
        var(kFloat, {n}),
        inv_std(kFloat, {n}),
        dw(kFloat, {n}),
        db(kFloat, {n}) {
    weight.fill_random(11, 0.5, 1.5);
    bias.fill_random(12);
  }
};

BatchNormForwardArgs forward_args(const Mirror& x, const Mirror& y, const Channels& c, bool relu,
                                  void* (Mirror::*data)() const) {
  const int64_t channels = c.mean.n();
  return {{x.dtype(), x.n() / channels, channels, (c.weight.*data)(), (c.bias.*data)(), relu},
          kEps,
          (y.*data)(),
          (c.mean.*data)(),
          (c.var.*data)(),
          (c.inv_std.*data)(),
          (x.*data)()};
}

BatchNormBackwardArgs backward_args(const Mirror& dx, const Mirror& dy, const Mirror& x,
                                    const Channels& c, void* (Mirror::*data)() const) {
  const int64_t channels = c.mean.n();
  return {{x.dtype(), x.n() / channels, channels, (c.weight.*data)(), (c.bias.*data)()},
          true,
          (dx.*data)(),
          (c.dw.*data)(),
          (c.db.*data)(),
          (dy.*data)(),
          (x.*data)(),
          (c.mean.*data)(),
          (c.inv_std.*data)()};
}

/// The stand-in takes every case; a card's library may have no engine for some.
bool is_taken(bool supported) {
#ifdef __CUDASIM__
  REQUIRE(supported);
#endif
  return supported;
}

void check_batch_norm(DType dtype, int64_t rows, int64_t channels) {
  CAPTURE(name_of(dtype), rows, channels);
  const double tolerance = 8.0 * rounding_of(dtype);
  Mirror x(dtype, {rows, channels}), dy(dtype, {rows, channels}), dx(dtype, {rows, channels});
  x.fill_random(1, 2.0, 6.0);  // far from zero
  dy.fill_random(2);
  Channels c(channels);
  for (const bool relu : {false, true}) {
    Mirror y(dtype, {rows, channels});
    const auto device = forward_args(x, y, c, relu, &Mirror::device_data);
    if (!is_taken(cudnn::batch_norm_forward_supports(device, test_stream()))) return;
    cudnn::batch_norm_forward(device, test_stream());
    cpu::batch_norm_forward(forward_args(x, y, c, relu, &Mirror::host_data));
    CHECK_SAME(y, tolerance);
    for (const Mirror* statistic : {&c.mean, &c.var, &c.inv_std}) CHECK_SAME(*statistic, 4e-6);
  }
  for (const Mirror* statistic : {&c.mean, &c.inv_std}) statistic->upload();
  const auto device = backward_args(dx, dy, x, c, &Mirror::device_data);
  if (!is_taken(cudnn::batch_norm_backward_supports(device, test_stream()))) return;
  cudnn::batch_norm_backward(device, test_stream());
  cpu::batch_norm_backward(backward_args(dx, dy, x, c, &Mirror::host_data));
  CHECK_SAME(dx, tolerance);
  for (const Mirror* gradient : {&c.dw, &c.db}) CHECK_SAME(*gradient, 1e-5);
}

TEST_CASE("batch-norm by cuDNN: result, statistics and gradients are the CPU's") {
  for (const DType dtype : device_floats()) {
    check_batch_norm(dtype, 2, 8);
    check_batch_norm(dtype, 33, 16);
    check_batch_norm(dtype, 65, 40);
  }
}

TEST_CASE("the variance that cuDNN does not keep follows from 1 / std, and is never negative") {
  constexpr double kVars[] = {0.0, 1e-4, 1.0, 1e6};
  const auto var_of = [&](int64_t i) { return kVars[i % 4]; };
  Mirror inv_std(kFloat, {8}), var(kFloat, {8});
  inv_std.fill([&](int64_t i) { return 1.0 / std::sqrt(var_of(i) + kEps); });
  cuda::batch_norm_variance(var.device_data(), inv_std.device_data(), kEps, 8, test_stream());
  for (int64_t i = 0; i < 8; ++i) {
    const double std = 1.0 / static_cast<double>(inv_std.host_as<float>()[i]);
    var.host_as<float>()[i] = static_cast<float>(std::max(0.0, std * std - kEps));
  }
  CHECK_SAME(var, 1e-7);
}

TEST_CASE("batch-norm that cuDNN cannot take is left to the native kernels") {
  const auto forward_is_taken = [](DType dtype, int64_t rows, int64_t channels, int64_t offset,
                                   int64_t weight_offset) {
    const Mirror x(dtype, {rows, channels}, offset), y(dtype, {rows, channels});
    const Channels c(channels, weight_offset);
    return cudnn::batch_norm_forward_supports(forward_args(x, y, c, false, &Mirror::device_data),
                                              test_stream());
  };
#ifdef __CUDASIM__
  REQUIRE(forward_is_taken(kFloat, 4, 4, 0, 0));
  REQUIRE_FALSE(forward_is_taken(kFloat, 4, 3, 0, 0));            // no whole vectors
  REQUIRE_FALSE(forward_is_taken(DType::kBFloat16, 4, 4, 0, 0));  // 8 bytes
#endif
  REQUIRE_FALSE(forward_is_taken(DType::kFloat64, 4, 4, 0, 0));
  REQUIRE_FALSE(forward_is_taken(kFloat, 0, 4, 0, 0));
  REQUIRE_FALSE(forward_is_taken(kFloat, 4, 4, 1, 0));  // x is not aligned
  REQUIRE_FALSE(forward_is_taken(kFloat, 4, 4, 0, 1));  // the weight is not

  const Mirror x(kFloat, {4, 8}), dy(kFloat, {4, 8}), dx(kFloat, {4, 8});
  const Channels c(8);
  const auto args = backward_args(dx, dy, x, c, &Mirror::device_data);
  const auto backward_is_taken = [](const BatchNormBackwardArgs& changed) {
    return cudnn::batch_norm_backward_supports(changed, test_stream());
  };
  auto changed = args;
  changed.training = false;
  REQUIRE_FALSE(backward_is_taken(changed));
  changed = args;
  changed.problem.relu = true;
  REQUIRE_FALSE(backward_is_taken(changed));
  changed = args;
  changed.dx = nullptr;
  REQUIRE_FALSE(backward_is_taken(changed));
  changed = args;
  changed.problem.weight = nullptr;
  REQUIRE_FALSE(backward_is_taken(changed));
}

#ifdef __CUDASIM__  // on a device plans may need nothing

TEST_CASE("the provider setting chooses cuDNN for batch-norm") {
  const auto scratch_of = [](Provider provider) {
    const test::ProviderScope scope(provider);
    Mirror x(kFloat, {2, 4}), y(kFloat, {2, 4});
    x.fill_random(1);
    const Channels c(4);
    const auto args = forward_args(x, y, c, false, &Mirror::device_data);
    return scratch_during(
        [&] { HEDDLE_DISPATCH_VENDORS(kTestDevice, batch_norm_forward, args, cudnn); });
  };
  REQUIRE(scratch_of(Provider::kVendor) >= 512);
  REQUIRE(scratch_of(Provider::kNative) < 512);
}

#endif

}  // namespace
}  // namespace heddle
