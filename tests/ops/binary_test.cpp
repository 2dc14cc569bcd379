#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

using Function = double (*)(double, double);
using Op = Tensor (*)(const Tensor&, const Tensor&);

double add_of(double a, double b) { return a + b; }
double sub_of(double a, double b) { return a - b; }
double mul_of(double a, double b) { return a * b; }
double div_of(double a, double b) { return a / b; }

/// The element of x that broadcasting puts at place `i` of `shape`.
double broadcast_at(const Array& x, const Shape& shape, int64_t i) {
  int64_t place = 0;
  int64_t stride = 1;
  for (int back = 1; back <= shape.size(); ++back) {
    const int64_t index = i % shape[shape.size() - back];
    i /= shape[shape.size() - back];
    if (back > x.shape.size()) continue;
    const int64_t size = x.shape[x.shape.size() - back];
    if (size != 1) place += index * stride;
    stride *= size;
  }
  return x[place];
}

Array oracle(Function f, const Shape& shape, const Arrays& x) {
  Array y = filled_array(shape);
  for (int64_t i = 0; i < y.n(); ++i)
    y[i] = f(broadcast_at(x[0], shape, i), broadcast_at(x[1], shape, i));
  return y;
}

struct Shapes {
  Shape a, b, y;
};

std::vector<Shapes> shapes() {
  std::vector<Shapes> all{
      {{}, {}, {}},
      {{2, 3}, {}, {2, 3}},
      {{2, 3}, {1, 3}, {2, 3}},
      {{2, 1}, {1, 3}, {2, 3}},
      {{3}, {2, 3}, {2, 3}},
      {{4, 1, 5}, {3, 1}, {4, 3, 5}},
      {{2, 3, 5, 7}, {3, 1, 1}, {2, 3, 5, 7}},  // per channel
      {{2, 3, 5, 7}, {2, 1, 1, 7}, {2, 3, 5, 7}},
      {{2, 1, 2, 1, 2, 3}, {2, 1, 2, 1, 3}, {2, 2, 2, 2, 2, 3}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{70, 1000}, {1000}, {70, 1000}},  // more than one piece
  };
  for (const int64_t n : odd_sizes()) all.push_back({{n}, {n}, {n}});
  return all;
}

void check_arithmetic(const std::string& name, Op op, Function f, double min_magnitude = 0.0) {
  for (const Shapes& s : shapes()) {
    const OpInput b{.shape = s.b, .min_magnitude = min_magnitude};
    check_op({.name = name + " " + to_string(s.a) + " " + to_string(s.b),
              .inputs = {{.shape = s.a}, b},
              .op = [op](const Tensors& x) { return op(x[0], x[1]); },
              .oracle = [&](const Arrays& x) { return oracle(f, s.y, x); }});
  }
}

void check_integers(const std::string& name, Op op, Function f) {
  for (const int64_t n : odd_sizes()) {
    check_op(
        {.name = name + " of integers (" + std::to_string(n) + ")",
         .inputs = {{.shape = {n}, .low = 10, .high = 15}, {.shape = {n}, .low = 1, .high = 10}},
         .op = [op](const Tensors& x) { return op(x[0], x[1]); },
         .oracle = [&](const Arrays& x) { return oracle(f, {n}, x); },
         .dtypes = {DType::kUInt8, DType::kInt64},
         .gradient = false});
  }
}

void check_comparison(const std::string& name, Op op, Function f) {
  for (const Shapes& s : shapes()) {
    check_op({.name = name + " " + to_string(s.a) + " " + to_string(s.b),
              .inputs = {{.shape = s.a, .dtype = DType::kInt64}, {.shape = s.b}},
              .op = [op](const Tensors& x) { return op(x[0], x[1]); },
              .oracle = [&](const Arrays& x) { return oracle(f, s.y, x); },
              .dtypes = all_dtypes(),
              .result_dtype = DType::kUInt8,
              .gradient = false});
  }
}

Tensor float32(const std::vector<float>& values) {
  return on_test_device(Tensor::from<float>(values, {static_cast<int64_t>(values.size())}));
}

TEST_CASE("add", "[device][add]") { check_arithmetic("add", add, add_of); }
TEST_CASE("sub", "[device][sub]") { check_arithmetic("sub", sub, sub_of); }
TEST_CASE("mul", "[device][mul]") { check_arithmetic("mul", mul, mul_of); }
TEST_CASE("div", "[device][div]") { check_arithmetic("div", div, div_of, 0.75); }

TEST_CASE("arithmetic of integers", "[device][add][sub][mul]") {
  check_integers("add", add, add_of);
  check_integers("sub", sub, sub_of);
  check_integers("mul", mul, mul_of);
}

TEST_CASE("integers wrap around", "[device][add][mul]") {
  const Tensor small = on_test_device(Tensor::from<uint8_t>({200, 255}, {2}));
  CHECK(add(small, small).to_vector<int64_t>() == std::vector<int64_t>{144, 254});
  CHECK(sub(small, on_test_device(Tensor::from<uint8_t>({201, 0}, {2}))).to_vector<int64_t>() ==
        std::vector<int64_t>{255, 255});
  const Tensor large = on_test_device(Tensor::from<int64_t>({INT64_MAX}, {1}));
  CHECK(add(large, ones({1}, DType::kInt64, test_device())).to_vector<int64_t>()[0] == INT64_MIN);
  CHECK(mul(large, 2.0).to_vector<int64_t>()[0] == -2);
}

TEST_CASE("integers are divided as float32", "[device][div]") {
  const Tensor y = on_test_device(Tensor::from<int64_t>({7, -7, 1}, {3})) /
                   on_test_device(Tensor::from<uint8_t>({2, 2, 0}, {3}));
  CHECK(y.dtype() == DType::kFloat32);
  CHECK(y.to_vector<float>() == std::vector<float>{3.5F, -3.5F, INFINITY});
}

TEST_CASE("a number divides and is no reciprocal that multiplies", "[div]") {
  std::vector<float> values(1000), expected(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5F;
  for (size_t i = 0; i < values.size(); ++i) expected[i] = values[i] / 3.0F;
  Tensor x = float32(values);
  x.set_requires_grad();
  const Tensor y = x / 3.0;
  CHECK(y.to_vector<float>() == expected);
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(1000, 1.0F / 3.0F));
  CHECK((Tensor::from<int64_t>({7, -1}, {2}) / 2.0).to_vector<float>() ==
        std::vector<float>{3.5F, -0.5F});
  CHECK((float32({1, 0}) / 0.0).to_vector<float>()[0] == INFINITY);
}

TEST_CASE("comparisons", "[device][eq][ne][lt][le][gt][ge]") {
  check_comparison("eq", eq, [](double a, double b) { return a == b ? 1.0 : 0.0; });
  check_comparison("ne", ne, [](double a, double b) { return a != b ? 1.0 : 0.0; });
  check_comparison("lt", lt, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  check_comparison("le", le, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  check_comparison("gt", gt, [](double a, double b) { return a > b ? 1.0 : 0.0; });
  check_comparison("ge", ge, [](double a, double b) { return a >= b ? 1.0 : 0.0; });
}

TEST_CASE("NaN equals nothing and infinities compare", "[device][eq][ne][lt][ge]") {
  const Tensor a = float32({NAN, INFINITY, -INFINITY, 0.0F});
  const Tensor b = float32({NAN, INFINITY, INFINITY, -0.0F});
  CHECK(eq(a, b).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 1});
  CHECK(ne(a, b).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1, 0});
  CHECK(lt(a, b).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1, 0});
  CHECK(ge(a, b).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 1});
}

TEST_CASE("int64 comparisons are exact beyond 2^53", "[device][lt][eq]") {
  const int64_t big = int64_t{1} << 62;
  const Tensor a = on_test_device(Tensor::from<int64_t>({big, -big}, {2}));
  const Tensor b = on_test_device(Tensor::from<int64_t>({big + 1, big}, {2}));
  CHECK(lt(a, b).to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(eq(a, b).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
}

TEST_CASE("mixed dtypes are promoted", "[add][mul]") {
  const auto result = [](DType a, DType b) { return add(ones({2}, a), ones({2}, b)).dtype(); };
  CHECK(result(DType::kFloat16, DType::kInt64) == DType::kFloat16);
  CHECK(result(DType::kFloat16, DType::kBFloat16) == DType::kFloat32);
  CHECK(result(DType::kFloat32, DType::kFloat64) == DType::kFloat64);
  CHECK(result(DType::kUInt8, DType::kInt64) == DType::kInt64);
  Tensor half = ones({2}, DType::kFloat16);
  half.set_requires_grad();
  sum(mul(half, full({2}, 3.0, DType::kFloat32))).backward();
  CHECK(half.grad().dtype() == DType::kFloat16);
  CHECK(half.grad().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("a number on one side", "[device][add][mul]") {
  for (const double value : {0.0, -1.5, 3.0}) {
    for (const int64_t n : odd_sizes()) {
      const std::string size = " (" + std::to_string(n) + ")";
      check_op({.name = "add number" + size,
                .inputs = {{.shape = {n}}},
                .op = [=](const Tensors& x) { return add(x[0], value); },
                .oracle =
                    [=](const Arrays& x) {
                      return oracle(add_of, {n}, {x[0], {{}, {value}}});
                    }});
      check_op({.name = "mul number" + size,
                .inputs = {{.shape = {n}}},
                .op = [=](const Tensors& x) { return mul(x[0], value); },
                .oracle =
                    [=](const Arrays& x) {
                      return oracle(mul_of, {n}, {x[0], {{}, {value}}});
                    }});
    }
  }
  const Tensor x = float32({1, 2});
  CHECK((2.0 * x - 1.0).to_vector<float>() == std::vector<float>{1, 3});
  CHECK((-x / 2.0).to_vector<float>() == std::vector<float>{-0.5F, -1});
  CHECK(add(ones({1}, DType::kUInt8), 2.0).to_vector<int64_t>()[0] == 3);
  check_error([] { add(ones({1}, DType::kInt64), 0.5); },
              "add: x is int64, expected a whole number, not 0.5");
}

TEST_CASE("a number is not rounded to a narrow dtype", "[mul]") {
  const Tensor x = full({1}, 100.0, DType::kBFloat16);
  CHECK(mul(x, 0.1).item() == 10.0);  // 0.1 as bfloat16 would give 10.0625
}

TEST_CASE("results keep the storage order of images", "[add]") {
  const Tensor image = Tensor::empty({2, 3, 4, 5}, DType::kFloat32, MemoryFormat::kChannelsLast);
  CHECK(add(image, image).is_contiguous(MemoryFormat::kChannelsLast));
  CHECK(mul(ones({3, 1, 1}), image).is_contiguous(MemoryFormat::kChannelsLast));
  CHECK(add(ones({2, 3, 4, 5}), ones({2, 3, 4, 5})).is_contiguous());
}

TEST_CASE("in-place arithmetic", "[add_][mul_]") {
  for (const DType dtype : all_dtypes()) {
    INFO(name_of(dtype));
    Tensor x = full({2, 3}, 4.0, dtype);
    const Tensor alias = x;
    add_(x, full({3}, 2.0, dtype), 3.0);
    CHECK(alias.to_vector<float>() == std::vector<float>(6, 10));
    mul_(x, full({2, 1}, 2.0, dtype));
    CHECK(alias.to_vector<float>() == std::vector<float>(6, 20));
    add_(x, -5.0);
    mul_(x, 3.0);
    CHECK(alias.to_vector<float>() == std::vector<float>(6, 45));
  }
}

TEST_CASE("in-place arithmetic over strided and overlapping views", "[add_]") {
  Tensor x = arange(6, DType::kFloat32);
  Tensor even = x.as_strided({3}, {2}, 0);
  add_(even, 10.0);
  CHECK(x.to_vector<float>() == std::vector<float>{10, 1, 12, 3, 14, 5});
  x = arange(5, DType::kFloat32);
  Tensor tail = narrow(x, 0, 1, 4);
  add_(tail, narrow(x, 0, 0, 4));  // reads what it writes: must act as if read first
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 3, 5, 7});
}

TEST_CASE("gradients of in-place arithmetic", "[device][add_][mul_]") {
  for (const int64_t n : odd_sizes()) {
    const std::string size = " (" + std::to_string(n) + ")";
    check_op({.name = "add_" + size,
              .inputs = {{.shape = {2, n}}, {.shape = {n}}},
              .op =
                  [](const Tensors& x) {
                    Tensor y = mul(x[0], 1.0);
                    add_(y, x[1], -0.5);
                    return y;
                  },
              .oracle =
                  [n](const Arrays& x) {
                    return oracle([](double a, double b) { return a - 0.5 * b; }, {2, n}, x);
                  },
              .n_accumulated = 2});
    check_op({.name = "mul_" + size,
              .inputs = {{.shape = {2, n}}, {.shape = {n}}},
              .op =
                  [](const Tensors& x) {
                    Tensor y = mul(x[0], 1.0);
                    mul_(y, x[1]);
                    return y;
                  },
              .oracle =
                  [n](const Arrays& x) {
                    return oracle(mul_of, {2, n}, x);
                  }});
  }
}

TEST_CASE("a tensor times itself in place", "[mul_]") {
  Tensor leaf = float32({1, 2, 3});
  leaf.set_requires_grad();
  Tensor x = mul(leaf, 1.0);
  mul_(x, x);
  sum(x).backward();
  CHECK(leaf.grad().to_vector<float>() == std::vector<float>{2, 4, 6});
}

TEST_CASE("arithmetic refuses what cannot be", "[add][add_][mul_]") {
  check_error(
      [] {
        add(ones({2, 3}), ones({4}));
      },
      "add: shapes (2, 3) and (4) do not broadcast: sizes 3 and 4 differ");
  check_error([] { div(ones({2}), ones({3})); }, "div: shapes (2) and (3) do not broadcast");
  check_error([] { lt(ones({2}), ones({3})); }, "lt: shapes (2) and (3) do not broadcast");
  Tensor target = ones({3});
  check_error([&] { add_(target, ones({2, 3})); }, "add_: shape (2, 3) does not broadcast to (3)");
  check_error([&] { mul_(target, ones({2})); }, "mul_: shape (2) does not broadcast to (3)");
  Tensor integers = ones({3}, DType::kInt64);
  check_error([&] { add_(integers, ones({3})); },
              "add_: target is int64 and cannot hold the result with float32");
  Tensor expanded = expand(ones({1}), {3});
  check_error([&] { add_(expanded, 1.0); }, "add_: target of shape (3) is an expanded view");
  Tensor leaf = ones({3});
  leaf.set_requires_grad();
  check_error([&] { add_(leaf, 1.0); }, "add_: a tensor of shape (3) is a leaf");
  check_error([&] { mul_(leaf, 1.0); }, "mul_: a tensor of shape (3) is a leaf");
}

}  // namespace
}  // namespace heddle
