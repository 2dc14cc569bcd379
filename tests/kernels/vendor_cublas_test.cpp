// The cuBLAS versions, over cudasim's stand-in of it, against the CPU: layouts, transposes,
// strides.
#include <algorithm>
#include <cmath>

#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/linear.h"
#include "heddle/kernels/matmul.h"
#include "heddle/tests/kernels/product_oracle.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using namespace testing;

struct Sizes {
  int64_t rows, in, out;
};

void check_linear(DType dtype, const Sizes& s, int64_t offset) {
  CAPTURE(name_of(dtype), s.rows, s.in, s.out, offset);
  Mirror x(dtype, {s.rows, s.in}, offset), w(dtype, {s.out, s.in}, offset);
  Mirror dy(dtype, {s.rows, s.out}, offset), bias(dtype, {s.out}, offset);
  Mirror dx(dtype, {s.rows, s.in}, offset), dw(dtype, {s.out, s.in}, offset);
  Mirror db(dtype, {s.out}, offset);
  uint64_t seed = 0;
  for (Mirror* input : {&x, &w, &dy, &bias}) input->fill_random(++seed);
  for (const bool relu : {false, true}) {
    Mirror y(dtype, {s.rows, s.out}, offset);
    fill_nan(y);
    const LinearForwardArgs sizes{dtype,   s.rows,  s.in,    s.out, nullptr,
                                  nullptr, nullptr, nullptr, relu};
    LinearForwardArgs host = sizes, device = sizes;
    host.y = y.host_data(), host.x = x.host_data(), host.w = w.host_data();
    device.y = y.device_data(), device.x = x.device_data(), device.w = w.device_data();
    if (relu) host.bias = bias.host_data(), device.bias = bias.device_data();
    REQUIRE(cublas::linear_forward_supports(device));
    cublas::linear_forward(device, test_stream());
    cpu::linear_forward(host);
    CHECK_SAME(y, product_tolerance(dtype, s.in));
  }
  fill_nan(dx);
  cublas::linear_backward_data(
      {dtype, s.rows, s.in, s.out, dx.device_data(), dy.device_data(), w.device_data()},
      test_stream());
  cpu::linear_backward_data(
      {dtype, s.rows, s.in, s.out, dx.host_data(), dy.host_data(), w.host_data()});
  CHECK_SAME(dx, product_tolerance(dtype, s.out));
  fill_nan(dw);
  fill_nan(db);
  cublas::linear_backward_weight({dtype, s.rows, s.in, s.out, dw.device_data(), db.device_data(),
                                  x.device_data(), dy.device_data()},
                                 test_stream());
  cpu::linear_backward_weight(
      {dtype, s.rows, s.in, s.out, dw.host_data(), db.host_data(), x.host_data(), dy.host_data()});
  CHECK_SAME(dw, product_tolerance(dtype, s.rows));
  CHECK_SAME(db, product_tolerance(dtype, s.rows));
}

TEST_CASE("linear by cuBLAS: forward and both gradients") {
  for (const DType dtype : device_floats())
    for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{5, 7, 3}, Sizes{33, 20, 17}})
      for (const int64_t offset : {0, 1}) check_linear(dtype, s, offset);
}

/// Operands of (batch, rows, cols) as rows or columns side by side, with a gap after each line.
struct Lie {
  bool turned;
  int64_t gap;
  bool one;
};

void check_matmul(DType dtype, const Lie& lie_a, const Lie& lie_b) {
  const int64_t batch = 3, m = 5, n = 7, k = 4;
  CAPTURE(name_of(dtype), lie_a.turned, lie_a.gap, lie_a.one, lie_b.turned, lie_b.gap, lie_b.one);
  const auto line = [](const Lie& lie, int64_t rows, int64_t cols) {
    return (lie.turned ? rows : cols) + lie.gap;
  };
  const auto size = [&](const Lie& lie, int64_t rows, int64_t cols) {
    return line(lie, rows, cols) * (lie.turned ? cols : rows);
  };
  Mirror a(dtype, {batch * size(lie_a, m, k)}), b(dtype, {batch * size(lie_b, k, n)});
  Mirror c(dtype, {batch, m, n});
  a.fill_random(1);
  b.fill_random(2);
  fill_nan(c);
  const auto args = [&](void* to, const void* left, const void* right) {
    const int64_t la = line(lie_a, m, k), lb = line(lie_b, k, n);
    return MatmulArgs{dtype,
                      batch,
                      m,
                      n,
                      k,
                      to,
                      left,
                      lie_a.one ? 0 : size(lie_a, m, k),
                      lie_a.turned ? 1 : la,
                      lie_a.turned ? la : 1,
                      right,
                      lie_b.one ? 0 : size(lie_b, k, n),
                      lie_b.turned ? 1 : lb,
                      lie_b.turned ? lb : 1};
  };
  const MatmulArgs device = args(c.device_data(), a.device_data(), b.device_data());
  REQUIRE(cublas::matmul_supports(device));
  cublas::matmul(device, test_stream());
  cpu::matmul(args(c.host_data(), a.host_data(), b.host_data()));
  CHECK_SAME(c, product_tolerance(dtype, k));
}

TEST_CASE("matmul by cuBLAS: every way that operands may lie") {
  for (const DType dtype : device_floats())
    for (const bool turn_a : {false, true})
      for (const bool turn_b : {false, true})
        for (const int64_t gap : {0, 3}) {
          check_matmul(dtype, {turn_a, gap, false}, {turn_b, gap, true});
          check_matmul(dtype, {turn_a, 0, true}, {turn_b, gap, false});
        }
}

/// The largest error of a (8, 16) (16, 8) product by cuBLAS, of factors that TF32 does not hold.
double error_of_product(DType dtype) {
  const int64_t m = 8, k = 16;
  Mirror a(dtype, {m, k}), b(dtype, {k, m}), c(dtype, {m, m});
  for (Mirror* factor : {&a, &b})
    factor->fill([](int64_t i) { return 1.0 + std::ldexp(static_cast<double>(i % 7 + 1), -13); });
  fill_nan(c);
  cublas::matmul(
      {dtype, 1, m, m, k, c.device_data(), a.device_data(), 0, k, 1, b.device_data(), 0, m, 1},
      test_stream());
  cpu::matmul({dtype, 1, m, m, k, c.host_data(), a.host_data(), 0, k, 1, b.host_data(), 0, m, 1});
  double worst = 0.0;
  const std::vector<double> found = c.device_values(), expected = c.host_values();
  for (size_t i = 0; i < found.size(); ++i)
    if (std::isfinite(expected[i])) worst = std::max(worst, std::abs(found[i] - expected[i]));
  return worst;
}

TEST_CASE("cuBLAS rounds factors to TF32 where that is allowed, of float32 alone") {
  REQUIRE(error_of_product(DType::kFloat32) < 1e-5);
  const test::Tf32Scope tf32;
  REQUIRE(error_of_product(DType::kFloat32) < 16 * 2.5e-3);
#ifdef __CUDASIM__  // a card may have none
  REQUIRE(error_of_product(DType::kFloat32) > 1e-4);
#endif
  REQUIRE(error_of_product(DType::kBFloat16) == 0.0);
}

TEST_CASE("what cuBLAS cannot take is left to the native kernels") {
  MatmulArgs args{DType::kFloat32, 1, 4, 4, 4, nullptr, nullptr, 16, 4, 1, nullptr, 16, 4, 1};
  REQUIRE(cublas::matmul_supports(args));
  args.a_col = 2;
  REQUIRE_FALSE(cublas::matmul_supports(args));
  args.a_col = 1;
  args.k = 0;
  REQUIRE_FALSE(cublas::matmul_supports(args));
  args.k = 4;
  args.n = int64_t{1} << 32;
  REQUIRE_FALSE(cublas::matmul_supports(args));
  REQUIRE_FALSE(cublas::linear_forward_supports(
      {DType::kFloat64, 1, 1, 1, nullptr, nullptr, nullptr, nullptr}));
}

#ifdef __CUDASIM__  // on a device `auto` chooses what is faster

/// Bytes that the product takes beside its operands: cuBLAS is given a workspace of 4 MiB or more.
int64_t scratch_of_product(Provider provider) {
  const test::ProviderScope scope(provider);
  Mirror a(DType::kFloat32, {4, 6}), b(DType::kFloat32, {6, 5}), c(DType::kFloat32, {4, 5});
  a.fill_random(1);
  b.fill_random(2);
  fill_nan(c);
  const MatmulArgs args{DType::kFloat32, 1,  4, 5, 6, c.device_data(), a.device_data(), 24, 6, 1,
                        b.device_data(), 30, 5, 1};
  const int64_t scratch =
      scratch_during([&] { HEDDLE_DISPATCH_CUDA_VENDOR(kTestDevice, matmul, args, cublas); });
  cpu::matmul({DType::kFloat32, 1, 4, 5, 6, c.host_data(), a.host_data(), 24, 6, 1, b.host_data(),
               30, 5, 1});
  CHECK_SAME(c, product_tolerance(DType::kFloat32, 6));
  return scratch;
}

TEST_CASE("the provider setting chooses cuBLAS on a device") {
  REQUIRE(scratch_of_product(Provider::kVendor) >= int64_t{4} << 20);
  REQUIRE(scratch_of_product(Provider::kNative) < int64_t{4} << 20);
  REQUIRE(scratch_of_product(Provider::kAuto) < int64_t{4} << 20);  // cudasim cannot time
}

#endif

}  // namespace
}  // namespace heddle
