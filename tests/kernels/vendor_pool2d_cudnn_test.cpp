// Pooling by cuDNN, over cudasim's stand-in of it, against the CPU's kernels: results, gradients,
// and the places that one of the providers writes and the other may read.
#include <cmath>

#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/pool2d.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using namespace testing;

struct PoolCase {
  int64_t batch, h, w, channels;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

Pool2dGeometry geometry_of(DType dtype, const PoolCase& c) {
  Pool2dGeometry g;
  g.dtype = dtype;
  g.batch = c.batch, g.in_h = c.h, g.in_w = c.w, g.channels = c.channels;
  g.kernel_h = c.kernel_h, g.kernel_w = c.kernel_w;
  g.stride_h = c.stride_h, g.stride_w = c.stride_w;
  g.pad_h = c.pad_h, g.pad_w = c.pad_w;
  g.out_h = (c.h + 2 * c.pad_h - c.kernel_h) / c.stride_h + 1;
  g.out_w = (c.w + 2 * c.pad_w - c.kernel_w) / c.stride_w + 1;
  return g;
}

int64_t x_size(const Pool2dGeometry& g) { return g.batch * g.in_h * g.in_w * g.channels; }
int64_t y_size(const Pool2dGeometry& g) { return g.batch * g.out_h * g.out_w * g.channels; }

const std::vector<PoolCase>& pool_cases() {
  static const std::vector<PoolCase> cases{
      {1, 1, 1, 1, 1, 1, 1, 1, 0, 0},  {2, 6, 6, 8, 2, 2, 2, 2, 0, 0},
      {2, 7, 5, 3, 3, 3, 2, 2, 1, 1},                                   // windows overlap
      {1, 5, 7, 16, 3, 2, 1, 1, 1, 1}, {2, 9, 8, 1, 2, 3, 3, 4, 0, 1},  // gaps between windows
  };
  return cases;
}

/// The stand-in takes every case; a card's library may have no engine for some.
bool is_taken(bool supported) {
#ifdef __CUDASIM__
  REQUIRE(supported);
#endif
  return supported;
}

void check_max(DType dtype, const PoolCase& c, int64_t offset) {
  const Pool2dGeometry g = geometry_of(dtype, c);
  CAPTURE(g.key(), offset);
  Mirror x(dtype, {x_size(g)}, offset), y(dtype, {y_size(g)}, offset),
      places(DType::kUInt8, {y_size(g)}, offset), dx(dtype, {x_size(g)}, offset);
  // Few values: of equals the first is the maximum.
  x.fill([](int64_t i) { return static_cast<double>(i * 7 % 5) - 2.0; });
  const MaxPool2dForwardArgs forward{g, y.device_data(), x.device_data(), places.device_data(),
                                     DType::kUInt8};
  if (!is_taken(cudnn::max_pool2d_forward_supports(forward, test_stream()))) return;
  cudnn::max_pool2d_forward(forward, test_stream());
  cpu::max_pool2d_forward({g, y.host_data(), x.host_data(), places.host_data(), DType::kUInt8});
  CHECK_SAME_BITS(y);
  CHECK_SAME_BITS(places);
  y.fill_random(3);  // from here on its gradient
  const MaxPool2dBackwardArgs backward{g, dx.device_data(), y.device_data(), places.device_data(),
                                       DType::kUInt8};
  places.upload();
  if (!is_taken(cudnn::max_pool2d_backward_supports(backward, test_stream()))) return;
  cudnn::max_pool2d_backward(backward, test_stream());
  cpu::max_pool2d_backward({g, dx.host_data(), y.host_data(), places.host_data(), DType::kUInt8});
  CHECK_SAME(dx, rounding_of(dtype));
}

void check_average(DType dtype, const PoolCase& c, int64_t offset, bool count_include_pad) {
  const Pool2dGeometry g = geometry_of(dtype, c);
  CAPTURE(g.key(), offset, count_include_pad);
  Mirror x(dtype, {x_size(g)}, offset), y(dtype, {y_size(g)}, offset);
  x.fill_random(1);
  const AvgPool2dForwardArgs forward{g, y.device_data(), x.device_data(), count_include_pad};
  if (!is_taken(cudnn::avg_pool2d_forward_supports(forward, test_stream()))) return;
  cudnn::avg_pool2d_forward(forward, test_stream());
  cpu::avg_pool2d_forward({g, y.host_data(), x.host_data(), count_include_pad});
  CHECK_SAME(y, rounding_of(dtype));
  y.fill_random(2);
  const AvgPool2dBackwardArgs backward{g, x.device_data(), y.device_data(), count_include_pad};
  if (!is_taken(cudnn::avg_pool2d_backward_supports(backward, test_stream()))) return;
  cudnn::avg_pool2d_backward(backward, test_stream());
  cpu::avg_pool2d_backward({g, x.host_data(), y.host_data(), count_include_pad});
  CHECK_SAME(x, rounding_of(dtype));
}

TEST_CASE("pooling by cuDNN: results, places and gradients are the CPU's") {
  for (const DType dtype : device_floats())
    for (const PoolCase& c : pool_cases())
      for (const int64_t offset : {0, 1}) {
        check_max(dtype, c, offset);
        for (const bool counted : {true, false}) check_average(dtype, c, offset, counted);
      }
}

TEST_CASE("the maximum by cuDNN without places; NaN wins, infinities are kept") {
  const Pool2dGeometry g = geometry_of(DType::kFloat32, {1, 2, 4, 1, 2, 2, 2, 2, 0, 0});
  Mirror x(DType::kFloat32, {x_size(g)}), y(DType::kFloat32, {y_size(g)});
  x.fill([](int64_t) { return -HUGE_VAL; });
  x.host_as<float>()[1] = std::nanf("");
  x.upload();
  const MaxPool2dForwardArgs args{g, y.device_data(), x.device_data(), nullptr, DType::kUInt8};
  if (!is_taken(cudnn::max_pool2d_forward_supports(args, test_stream()))) return;
  cudnn::max_pool2d_forward(args, test_stream());
  cpu::max_pool2d_forward({g, y.host_data(), x.host_data(), nullptr, DType::kUInt8});
  CHECK_SAME_BITS(y);
}

TEST_CASE("poolings that cuDNN cannot take are left to the native kernels") {
  const auto max_is_taken = [](const Pool2dGeometry& g, DType place) {
    const int byte = 0;
    return cudnn::max_pool2d_backward_supports({g, nullptr, nullptr, &byte, place}, test_stream());
  };
  Pool2dGeometry g = geometry_of(DType::kFloat32, {1, 20, 20, 1, 12, 11, 1, 1, 0, 0});
  REQUIRE_FALSE(max_is_taken(g, DType::kUInt8));  // 132 places in a signed byte
  g.kernel_h = g.kernel_w = 17;
  REQUIRE_FALSE(max_is_taken(g, DType::kInt64));
  g = geometry_of(DType::kFloat64, {1, 2, 2, 1, 2, 2, 2, 2, 0, 0});
  REQUIRE_FALSE(cudnn::avg_pool2d_forward_supports({g, nullptr, nullptr, true}, test_stream()));
  g.dtype = DType::kFloat32;
  g.batch = 0;
  REQUIRE_FALSE(cudnn::avg_pool2d_backward_supports({g, nullptr, nullptr, true}, test_stream()));
}

#ifdef __CUDASIM__  // on a device plans may need nothing

TEST_CASE("the provider setting chooses cuDNN for a pooling") {
  const auto scratch_of = [](Provider provider) {
    const test::ProviderScope scope(provider);
    const Pool2dGeometry g = geometry_of(DType::kFloat32, {1, 2, 2, 1, 2, 2, 2, 2, 0, 0});
    Mirror x(DType::kFloat32, {4}), y(DType::kFloat32, {1});
    const MaxPool2dForwardArgs args{g, y.device_data(), x.device_data(), nullptr, DType::kUInt8};
    return scratch_during(
        [&] { HEDDLE_DISPATCH_CUDA_VENDOR(kTestDevice, max_pool2d_forward, args, cudnn); });
  };
  REQUIRE(scratch_of(Provider::kVendor) >= 512);
  REQUIRE(scratch_of(Provider::kNative) < 512);
}

#endif

}  // namespace
}  // namespace heddle
