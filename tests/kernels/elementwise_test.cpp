#include "heddle/kernels/binary.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/fill.h"
#include "heddle/kernels/unary.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

constexpr UnaryOp kUnaryOps[] = {UnaryOp::kRelu, UnaryOp::kGelu, UnaryOp::kNeg,  UnaryOp::kExp,
                                 UnaryOp::kLog,  UnaryOp::kSqrt, UnaryOp::kTanh, UnaryOp::kSigmoid};
constexpr BinaryOp kBinaryOps[] = {BinaryOp::kAdd, BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kEq,
                                   BinaryOp::kNe,  BinaryOp::kLt,  BinaryOp::kLe};

bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEq; }

void check_unary(UnaryOp op, DType dtype, int64_t n, int64_t y_offset, int64_t x_offset) {
  CAPTURE(static_cast<int>(op), name_of(dtype), n, y_offset, x_offset);
  Mirror y(dtype, {n}, y_offset), x(dtype, {n}, x_offset), dy(dtype, {n}, y_offset);
  x.fill_random(1, 0.1, 3.0);
  dy.fill_random(2);
  cpu::unary_forward({y.host_data(), x.host_data(), n, dtype, op});
  cuda::unary_forward({y.device_data(), x.device_data(), n, dtype, op}, test_stream());
  CHECK_SAME(y, rounding_of(dtype));
  Mirror dx(dtype, {n}, x_offset);
  cpu::unary_backward({dx.host_data(), dy.host_data(), x.host_data(), n, dtype, op});
  cuda::unary_backward({dx.device_data(), dy.device_data(), x.device_data(), n, dtype, op},
                       test_stream());
  CHECK_SAME(dx, 8 * rounding_of(dtype));  // gelu and log have derivatives of up to 10
}

TEST_CASE("unary on a device", "[unary]") {
  for (const DType dtype : device_floats()) {
    for (const UnaryOp op : kUnaryOps) check_unary(op, dtype, 1025, 0, 0);
    for (const int64_t n : kernel_sizes()) {
      check_unary(UnaryOp::kRelu, dtype, n, 0, 0);
      check_unary(UnaryOp::kTanh, dtype, n, 3, 3);  // a head
      check_unary(UnaryOp::kNeg, dtype, n, 1, 2);   // no common alignment
    }
  }
}

TEST_CASE("unary on a device keeps NaN and infinities", "[unary]") {
  for (const UnaryOp op : kUnaryOps) {
    Mirror y(DType::kFloat32, {4}), x(DType::kFloat32, {4});
    constexpr double kValues[] = {INFINITY, -INFINITY, NAN, -0.0};
    x.fill([&](int64_t i) { return kValues[i % 4]; });
    cpu::unary_forward({y.host_data(), x.host_data(), 4, DType::kFloat32, op});
    cuda::unary_forward({y.device_data(), x.device_data(), 4, DType::kFloat32, op}, test_stream());
    CAPTURE(static_cast<int>(op));
    CHECK_SAME(y, 1e-6);
  }
}

TEST_CASE("unary on a device refuses float64", "[unary]") {
  CHECK_THROWS_WITH(
      cuda::unary_forward({nullptr, nullptr, 1, DType::kFloat64, UnaryOp::kExp}, test_stream()),
      "unary_forward: float64 is computed on the CPU, found it on a CUDA device");
}

/// Shapes and strides of y, a and b.
struct BinaryLayout {
  std::string name;
  Shape shape;
  Strides y, a, b;
  int64_t offset = 0;
};

std::vector<BinaryLayout> binary_layouts() {
  std::vector<BinaryLayout> layouts;
  for (const int64_t n : kernel_sizes()) layouts.push_back({"dense", {n}, {1}, {1}, {1}});
  layouts.push_back({"off alignment", {1025}, {1}, {1}, {1}, 3});
  layouts.push_back({"b is one value", {1025}, {1}, {1}, {0}});
  layouts.push_back({"both are one value", {2, 515}, {515, 1}, {0, 0}, {0, 0}});
  layouts.push_back({"b is a row", {37, 64}, {64, 1}, {64, 1}, {0, 1}});
  layouts.push_back({"b is an odd row", {37, 33}, {33, 1}, {33, 1}, {0, 1}});
  layouts.push_back({"a is a column", {37, 64}, {64, 1}, {1, 0}, {64, 1}});
  layouts.push_back({"b is transposed", {37, 64}, {64, 1}, {64, 1}, {1, 37}});
  layouts.push_back({"y is transposed", {37, 64}, {1, 37}, {64, 1}, {1, 37}});
  layouts.push_back({"gaps", {5, 3, 7}, {84, 28, 2}, {63, 21, 3}, {21, 7, 1}});
  layouts.push_back(
      {"b over channels", {2, 8, 3, 5}, {120, 1, 40, 8}, {120, 1, 40, 8}, {0, 1, 0, 0}});
  layouts.push_back(
      {"b over planes", {2, 8, 3, 5}, {120, 15, 5, 1}, {120, 15, 5, 1}, {0, 1, 0, 0}});
  layouts.push_back({"six dimensions",
                     {2, 3, 2, 3, 2, 3},
                     {324, 108, 36, 12, 4, 1},
                     {108, 36, 18, 6, 3, 1},
                     {0, 6, 0, 2, 0, 1}});
  layouts.push_back({"empty", {3, 0, 2}, {2, 2, 1}, {2, 2, 1}, {0, 0, 1}});
  return layouts;
}

void check_binary(BinaryOp op, DType dtype, const BinaryLayout& layout, double alpha) {
  CAPTURE(static_cast<int>(op), name_of(dtype), layout.name, layout.shape[0]);
  const DType y_dtype = is_comparison(op) ? DType::kUInt8 : dtype;
  Mirror y(y_dtype, layout.shape, layout.y, layout.offset);
  Mirror a(dtype, layout.shape, layout.a, layout.offset);
  Mirror b(dtype, layout.shape, layout.b, layout.offset);
  a.fill_random(3, 1.0, 4.0);
  b.fill_random(4, 1.0, 4.0);
  cpu::binary({y.host(), a.host(), b.host(), op, alpha});
  cuda::binary({y.device(), a.device(), b.device(), op, alpha}, test_stream());
  CHECK_SAME_BITS(y);
}

TEST_CASE("binary on a device", "[binary]") {
  for (const BinaryLayout& layout : binary_layouts()) {
    for (const DType dtype : every_dtype()) {
      check_binary(BinaryOp::kAdd, dtype, layout, 2.0);
      check_binary(BinaryOp::kLe, dtype, layout, 1.0);
    }
  }
  for (const BinaryOp op : kBinaryOps)
    for (const DType dtype : every_dtype())
      if (op != BinaryOp::kDiv || is_floating(dtype))
        check_binary(op, dtype, binary_layouts()[7], 1.0);
}

TEST_CASE("binary on a device may write to an operand", "[binary]") {
  Mirror a(DType::kFloat32, {1025}), b(DType::kFloat32, {1025});
  a.fill_random(5);
  b.fill_random(6);
  cpu::binary({a.host(), a.host(), b.host(), BinaryOp::kAdd, 0.5});
  cuda::binary({a.device(), a.device(), b.device(), BinaryOp::kAdd, 0.5}, test_stream());
  CHECK_SAME_BITS(a);
}

void check_copy(DType to, DType from, const Shape& shape, const Strides& target_strides,
                const Strides& source_strides, int64_t offset = 0) {
  CAPTURE(name_of(to), name_of(from), to_string(shape), to_string(target_strides));
  Mirror target(to, shape, target_strides, offset), source(from, shape, source_strides);
  source.fill_random(7, -300.0, 300.0);
  cpu::copy({target.host(), source.host()});
  cuda::copy({target.device(), source.device()}, test_stream());
  CHECK_SAME_BITS(target);
}

TEST_CASE("copy on a device converts between all dtypes", "[copy]") {
  for (const DType to : every_dtype()) {
    for (const DType from : every_dtype()) {
      check_copy(to, from, {1025}, {1}, {1});
      check_copy(to, from, {3, 11}, {11, 1}, {1, 3}, 1);
    }
  }
}

TEST_CASE("copy on a device takes any strides", "[copy]") {
  for (const DType dtype : every_dtype()) {
    for (const int64_t n : kernel_sizes()) check_copy(dtype, dtype, {n}, {1}, {1});
    check_copy(dtype, dtype, {1025}, {1}, {1}, 1);
    check_copy(dtype, dtype, {40, 36}, {36, 1}, {1, 40});  // turned
    check_copy(dtype, dtype, {33, 31}, {31, 1}, {1, 33}, 1);
    check_copy(dtype, dtype, {2, 65, 3, 33}, {6435, 1, 2145, 65}, {6435, 99, 33, 1});  // to NHWC
    check_copy(dtype, dtype, {2, 65, 3, 33}, {6435, 99, 33, 1}, {6435, 1, 2145, 65});  // and back
    check_copy(dtype, dtype, {8, 16}, {16, 1}, {0, 1});
    check_copy(dtype, dtype, {8, 16}, {16, 1}, {1, 0});
    check_copy(dtype, dtype, {8, 15}, {45, 3}, {15, 1});
    check_copy(dtype, dtype, {0, 15}, {15, 1}, {1, 1});
  }
}

TEST_CASE("copy on a device bounds what is no integer", "[copy]") {
  constexpr double kValues[] = {INFINITY, -INFINITY, NAN, 1e30, -1e30, 255.9, -0.9, 65504.0};
  for (const DType from : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    for (const DType to : every_dtype()) {
      Mirror target(to, {8}), source(from, {8});
      source.fill([&](int64_t i) { return kValues[i % 8]; });
      cpu::copy({target.host(), source.host()});
      cuda::copy({target.device(), source.device()}, test_stream());
      CAPTURE(name_of(to), name_of(from));
      CHECK_SAME(target, 0.0);
    }
  }
}

TEST_CASE("fill and arange on a device", "[fill]") {
  for (const DType dtype : every_dtype()) {
    for (const int64_t n : kernel_sizes()) {
      for (const int64_t offset : {0, 5}) {
        CAPTURE(name_of(dtype), n, offset);
        Mirror y(dtype, {n}, offset);
        y.fill_random(8);
        cpu::fill({y.host(), 3.0});
        cuda::fill({y.device(), 3.0}, test_stream());
        CHECK_SAME_BITS(y);
        cpu::arange({y.host()});
        cuda::arange({y.device()}, test_stream());
        CHECK_SAME_BITS(y);
      }
    }
    Mirror y(dtype, {5, 6, 7}, {1, 70, 10});
    y.fill_random(9);
    cpu::fill({y.host(), 7.0});
    cuda::fill({y.device(), 7.0}, test_stream());
    CHECK_SAME_BITS(y);
  }
}

}  // namespace
}  // namespace heddle
