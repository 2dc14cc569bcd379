#include "heddle/kernels/reduce.h"

#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

/// Shape and strides of x, and the shape of y (1 along reduced dimensions).
struct Layout {
  std::string name;
  Shape x, strides, y;
  int64_t offset = 0;
};

Layout dense_layout(const std::string& name, const Shape& x, const Shape& y, int64_t offset = 0) {
  return {name, x, strides_for(x), y, offset};
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int64_t n : kernel_sizes()) all.push_back(dense_layout("all", {n}, {1}));
  all.push_back(dense_layout("in parts", {70000}, {1}));
  all.push_back(dense_layout("in odd parts", {70001}, {1}, 1));
  for (const int64_t n : {0, 1, 3, 10, 31, 33, 64, 1000, 1024, 1025, 5000})
    all.push_back(dense_layout("rows", {7, n}, {7, 1}));
  for (const int64_t n : {1, 3, 31, 32, 33, 130, 1025}) {
    all.push_back(dense_layout("columns", {37, n}, {1, n}));
    all.push_back(dense_layout("a middle dimension", {3, 19, n}, {3, 1, n}));
  }
  all.push_back(dense_layout("columns in parts", {5000, 8}, {1, 8}));
  all.push_back(dense_layout("columns in odd parts", {5001, 3}, {1, 3}, 1));
  all.push_back(dense_layout("many rows", {70000, 2}, {70000, 1}));
  all.push_back(dense_layout("no rows", {0, 4}, {0, 1}));
  all.push_back(dense_layout("planes", {4, 6, 5, 8}, {1, 6, 1, 1}));
  all.push_back(dense_layout("outer and inner", {4, 6, 5, 8}, {1, 6, 5, 1}));
  all.push_back(dense_layout("none", {4, 6}, {4, 6}));
  all.push_back({"channels-last planes", {4, 8, 5, 6}, {240, 1, 48, 8}, {1, 8, 1, 1}});
  all.push_back({"channels-last channels", {4, 8, 5, 6}, {240, 1, 48, 8}, {4, 1, 5, 6}});
  all.push_back({"transposed", {33, 40}, {1, 33}, {33, 1}});
  all.push_back({"gaps", {6, 7, 9}, {180, 25, 2}, {6, 1, 9}});
  all.push_back({"repeated", {6, 9}, {0, 1}, {1, 9}});
  return all;
}

/// One rounding of the result, and one of float32 for each term of up to 1: far less than a term.
double tolerance_of(DType dtype, const Layout& layout) {
  const double terms = static_cast<double>(numel(layout.x)) /
                       static_cast<double>(std::max<int64_t>(1, numel(layout.y)));
  return 2 * rounding_of(dtype) + terms * 0x1p-24;
}

void check_reduce(ReduceOp op, DType dtype, const Layout& layout, double scale) {
  CAPTURE(layout.name, to_string(layout.x), name_of(dtype), static_cast<int>(op));
  const bool integers = op == ReduceOp::kSum && !is_floating(dtype);
  Mirror x(dtype, layout.x, layout.strides, layout.offset);
  Mirror y(integers ? DType::kInt64 : dtype, layout.y);
  const double limit = is_floating(dtype) ? 1.0 : 10.0;
  x.fill_random(11, -limit, limit);
  cpu::reduce({y.host(), x.host(), op, scale});
  cuda::reduce({y.device(), x.device(), op, scale}, test_stream());
  const bool exact = op == ReduceOp::kMax || integers;
  CHECK_SAME(y, exact ? 0.0 : tolerance_of(dtype, layout));
}

bool is_over_nothing(const Layout& layout) { return numel(layout.x) == 0 && numel(layout.y) > 0; }

TEST_CASE("sum on a device", "[reduce]") {
  for (const Layout& layout : layouts()) {
    check_reduce(ReduceOp::kSum, DType::kFloat32, layout, 0.5);
    check_reduce(ReduceOp::kSum, DType::kBFloat16, layout, 1.0);
    check_reduce(ReduceOp::kSum, DType::kUInt8, layout, 1.0);
  }
  for (const DType dtype : {DType::kFloat16, DType::kInt64})
    check_reduce(ReduceOp::kSum, dtype, dense_layout("rows", {5, 300}, {5, 1}), 1.0);
}

TEST_CASE("max on a device", "[reduce]") {
  for (const Layout& layout : layouts()) {
    if (is_over_nothing(layout)) continue;
    check_reduce(ReduceOp::kMax, DType::kFloat32, layout, 1.0);
    check_reduce(ReduceOp::kMax, DType::kUInt8, layout, 1.0);
  }
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kInt64})
    check_reduce(ReduceOp::kMax, dtype, dense_layout("rows", {5, 300}, {5, 1}), 1.0);
}

TEST_CASE("sum on a device has the same bits each time, and a small error", "[reduce]") {
  constexpr int64_t kN = 300001;
  Mirror x(DType::kFloat32, {kN}), y(DType::kFloat32, {1}), again(DType::kFloat32, {1});
  x.fill_random(12, 0.0, 1.0);
  cuda::reduce({y.device(), x.device(), ReduceOp::kSum, 1.0}, test_stream());
  cuda::reduce({again.device(), x.device(), ReduceOp::kSum, 1.0}, test_stream());
  CHECK(y.device_bytes() == again.device_bytes());
  double exact = 0.0;
  for (int64_t i = 0; i < kN; ++i) exact += static_cast<double>(x.host_as<float>()[i]);
  const double got = y.device_values()[256 / 4];
  CHECK(std::abs(got - exact) <= 1e-7 * exact);
}

void check_argmax(DType dtype, const Layout& layout, double low, double high) {
  CAPTURE(layout.name, to_string(layout.x), name_of(dtype));
  Mirror x(dtype, layout.x, layout.strides, layout.offset), index(DType::kInt64, layout.y);
  x.fill_random(13, low, high);
  cpu::argmax({index.host(), x.host()});
  cuda::argmax({index.device(), x.device()}, test_stream());
  CHECK_SAME_BITS(index);
  if (!is_floating(dtype) || dtype == DType::kFloat64) return;
  Mirror dx(dtype, layout.x), dy(dtype, layout.y);
  dy.fill_random(14);
  cpu::max_backward({dx.host(), dy.host(), index.host()});
  cuda::max_backward({dx.device(), dy.device(), index.device()}, test_stream());
  CHECK_SAME_BITS(dx);
}

TEST_CASE("argmax on a device takes the first, and max's gradient goes there", "[argmax]") {
  for (const Layout& layout : layouts()) {
    if (is_over_nothing(layout)) continue;
    check_argmax(DType::kFloat32, layout, -2.0, 2.0);
    check_argmax(DType::kUInt8, layout, 0.0, 3.0);  // ties
  }
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kInt64})
    check_argmax(dtype, dense_layout("rows", {5, 300}, {5, 1}), -20.0, 20.0);
}

TEST_CASE("max and argmax on a device with NaN and infinities", "[argmax]") {
  constexpr double kRows[][4] = {{1.0, NAN, 3.0, NAN},
                                 {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                 {-1.0, INFINITY, 2.0, INFINITY},
                                 {NAN, INFINITY, 0.0, 1.0}};
  for (const DType dtype : device_floats()) {
    Mirror x(dtype, {4, 4}), y(dtype, {4, 1}), index(DType::kInt64, {4, 1});
    const int64_t begin = 256 / size_of(dtype);
    x.fill([&](int64_t i) {
      const int64_t place = i - begin;
      return place >= 0 && place < 16 ? kRows[place / 4][place % 4] : 0.0;
    });
    cpu::reduce({y.host(), x.host(), ReduceOp::kMax});
    cuda::reduce({y.device(), x.device(), ReduceOp::kMax}, test_stream());
    CHECK_SAME(y, 0.0);
    cpu::argmax({index.host(), x.host()});
    cuda::argmax({index.device(), x.device()}, test_stream());
    CHECK_SAME_BITS(index);
  }
}

TEST_CASE("all_finite on a device finds one bad element", "[finite]") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t n : kernel_sizes()) {
      for (const double bad : {0.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
        CAPTURE(name_of(dtype), n, bad);
        Mirror x(dtype, {n}), finite(DType::kUInt8, {1});
        const int64_t begin = 256 / size_of(dtype);
        x.fill([&](int64_t i) { return i == begin + n - 1 ? bad : i == begin - 1 ? NAN : 1.0; });
        cpu::all_finite({finite.host_as<bool>(), x.host_data(), n, dtype});
        cuda::all_finite({finite.device_as<bool>(), x.device_data(), n, dtype}, test_stream());
        CHECK_SAME_BITS(finite);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
