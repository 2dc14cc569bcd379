#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "heddle/core/memory.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

using Op = Tensor (*)(const Tensor&);
using Function = double (*)(double);

/// The functions once more, by the C library in float64.
double relu_of(double x) { return std::isnan(x) ? x : std::max(0.0, x); }
double gelu_of(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double neg_of(double x) { return -x; }
double exp_of(double x) { return std::exp(x); }
double log_of(double x) { return std::log(x); }
double sqrt_of(double x) { return std::sqrt(x); }
double tanh_of(double x) { return std::tanh(x); }
double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Array mapped(Function f, const Array& x) {
  Array y = x;
  for (double& value : y.values) value = f(value);
  return y;
}

void check_unary(const std::string& name, Op op, Function f, const OpInput& range) {
  std::vector<Shape> shapes{{}, {2, 3}, {2, 3, 4, 5}, {2, 0, 3}, {70, 1000}};
  for (const int64_t n : odd_sizes()) shapes.push_back({n});
  for (const Shape& shape : shapes) {
    OpInput input = range;
    input.shape = shape;
    check_op({.name = name + " " + to_string(shape),
              .inputs = {input},
              .op = [op](const Tensors& x) { return op(x[0]); },
              .oracle = [f](const Arrays& x) { return mapped(f, x[0]); }});
  }
}

/// The largest error of float32, in units in the last place, over 2^18 numbers in [low, high].
double worst_ulps(Op op, Function f, double low, double high) {
  const int64_t n = 1 << 18;
  std::vector<float> values;
  for (int64_t i = 0; i <= n; ++i)
    values.push_back(static_cast<float>(low + (high - low) * static_cast<double>(i) / n));
  const Tensor x = Tensor::from<float>(values, {n + 1});
  double worst = 0.0;
  for_each_isa([&] {
    const std::vector<float> y = op(x).to_vector<float>();
    for (size_t i = 0; i < y.size(); ++i) {
      const double expected = f(static_cast<double>(values[i]));
      if (std::abs(expected) < 0x1p-126) continue;  // flushed to zero
      const double ulp = std::ldexp(1.0, std::max(-126, std::ilogb(expected)) - 23);
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / ulp);
    }
  });
  return worst;
}

std::vector<float> at_extremes(Op op, DType dtype) {
  const Tensor x = Tensor::from<double>({INFINITY, -INFINITY, NAN, 3e38, -3e38, 0.0}, {6});
  return op(to(x, dtype)).to_vector<float>();
}

TEST_CASE("relu", "[device][relu]") { check_unary("relu", relu, relu_of, {.min_magnitude = 0.01}); }
TEST_CASE("gelu", "[device][gelu]") { check_unary("gelu", gelu, gelu_of, {.low = -6, .high = 6}); }
TEST_CASE("neg", "[device][neg]") { check_unary("neg", neg, neg_of, {}); }
TEST_CASE("exp", "[device][exp]") { check_unary("exp", exp, exp_of, {.low = -4, .high = 4}); }
TEST_CASE("log", "[device][log]") { check_unary("log", log, log_of, {.low = 0.5, .high = 8}); }
TEST_CASE("sqrt", "[device][sqrt]") { check_unary("sqrt", sqrt, sqrt_of, {.low = 0.5, .high = 8}); }
TEST_CASE("tanh", "[device][tanh]") { check_unary("tanh", tanh, tanh_of, {.low = -4, .high = 4}); }
TEST_CASE("sigmoid", "[device][sigmoid]") {
  check_unary("sigmoid", sigmoid, sigmoid_of, {.low = -8, .high = 8});
}

TEST_CASE("float32 functions are right to a few units in the last place",
          "[exp][tanh][gelu][sigmoid][log][sqrt]") {
  CHECK(worst_ulps(exp, exp_of, -87.0, 88.7) < 2.0);
  CHECK(worst_ulps(exp, exp_of, -1.0, 1.0) < 2.0);
  CHECK(worst_ulps(tanh, tanh_of, -10.0, 10.0) < 3.0);
  CHECK(worst_ulps(tanh, tanh_of, -0.01, 0.01) < 1.0);
  CHECK(worst_ulps(sigmoid, sigmoid_of, -80.0, 80.0) < 4.0);
  CHECK(worst_ulps(gelu, gelu_of, -1.0, 10.0) < 6.0);
  CHECK(worst_ulps(log, log_of, 1e-30, 100.0) < 2.0);
  CHECK(worst_ulps(sqrt, sqrt_of, 0.0, 100.0) < 1.0);
}

TEST_CASE("gelu's tail has few relative errors far out", "[gelu]") {
  for (double x = -12.0; x < 0.0; x += 0.01) {
    const auto value = static_cast<double>(static_cast<float>(x));
    const double y = gelu(full({1}, value)).item();
    REQUIRE(std::abs(y - gelu_of(value)) <= 1e-5 * std::abs(gelu_of(value)));
  }
}

TEST_CASE("functions at infinity, NaN, large numbers and zero",
          "[exp][tanh][sigmoid][relu][gelu]") {
  for (const DType dtype : floating_dtypes()) {
    INFO(name_of(dtype));
    for_each_isa([&] {
      auto y = at_extremes(exp, dtype);
      CHECK((y[0] == INFINITY && y[1] == 0 && std::isnan(y[2]) && y[3] == INFINITY && y[4] == 0));
      CHECK(y[5] == 1);
      y = at_extremes(tanh, dtype);
      CHECK((y[0] == 1 && y[1] == -1 && std::isnan(y[2]) && y[3] == 1 && y[4] == -1 && y[5] == 0));
      y = at_extremes(sigmoid, dtype);
      CHECK((y[0] == 1 && y[1] == 0 && std::isnan(y[2]) && y[3] == 1 && y[4] == 0));
      CHECK(y[5] == 0.5F);
      y = at_extremes(relu, dtype);
      CHECK((y[0] == INFINITY && y[1] == 0 && std::isnan(y[2]) && y[4] == 0 && y[5] == 0));
      y = at_extremes(gelu, dtype);
      CHECK((y[0] == INFINITY && std::isnan(y[2]) && y[5] == 0));
    });
  }
}

TEST_CASE("NU-7 (c): NaN passes through relu, forward and backward", "[device][relu]") {
  Tensor x = on_test_device(Tensor::from<float>({NAN, -1, 0, 2}, {4}));
  const auto y = relu(x).to_vector<float>();
  CHECK(std::isnan(y[0]));
  CHECK((y[1] == 0 && y[2] == 0 && y[3] == 2));
  Tensor z = on_test_device(Tensor::from<float>({-1, 0, 2}, {3}));
  z.set_requires_grad();
  sum(relu(z)).backward();
  CHECK(z.grad().to_vector<float>() == std::vector<float>{0, 0, 1});
}

TEST_CASE("CV-6 (a): relu of an unaligned odd number of elements", "[device][relu]") {
  std::vector<float> values(1026);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 500;
  const Tensor buffer = on_test_device(Tensor::from<float>(values, {1026}));
  for_each_isa([&] {
    const auto y = relu(narrow(buffer, 0, 1, 1025)).to_vector<float>();
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == std::max(0.0F, values[i + 1]));
  });
}

TEST_CASE("functions of integers are refused", "[relu][exp]") {
  const Tensor x = ones({2}, DType::kInt64);
  check_error([&] { relu(x); }, "relu: x is int64, expected a floating dtype");
  check_error([&] { gelu(x); }, "gelu: x is int64");
  check_error([&] { exp(x); }, "exp: x is int64");
  check_error([&] { log(x); }, "log: x is int64");
  check_error([&] { sqrt(x); }, "sqrt: x is int64");
  check_error([&] { tanh(x); }, "tanh: x is int64");
  check_error([&] { sigmoid(x); }, "sigmoid: x is int64");
  check_error([&] { neg(x); }, "neg: x is int64");
}

int64_t available_memory() {  // bytes, as Linux says
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string unit; info >> key >> kib; std::getline(info, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return 0;
}

/// n float16 over one block that is mapped again and again: of them all it alone takes memory.
Tensor repeated(const std::vector<uint16_t>& block, int64_t n) {
  const size_t bytes = block.size() * sizeof(uint16_t);
  const size_t all = (static_cast<size_t>(n) + block.size() - 1) / block.size() * bytes;
  const int file = memfd_create("block", MFD_CLOEXEC);
  REQUIRE(write(file, block.data(), bytes) == static_cast<ssize_t>(bytes));
  void* begin = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(begin != MAP_FAILED);
  for (size_t at = 0; at < all; at += bytes)
    REQUIRE(mmap(static_cast<char*>(begin) + at, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED);
  close(file);
  const std::shared_ptr<void> owner(begin, [all](void* mapped) { munmap(mapped, all); });
  auto storage = std::make_shared<Storage>(Device::cpu(), begin, static_cast<int64_t>(all), owner);
  return Tensor::from_storage(std::move(storage), {n}, {1}, 0, DType::kFloat16);
}

void check_relu_counts_on_cpu(int64_t n) {
  constexpr uint16_t kMinusOne = 0xBC00, kThree = 0x4200;
  std::vector<uint16_t> block(1 << 24, kMinusOne), expected(block.size(), 0);
  for (size_t i = 0; i < block.size(); i += 1000) block[i] = expected[i] = kThree;
  Tensor x = repeated(block, n);
  Tensor last = narrow(x, 0, n - 1, 1);
  fill_(last, 3.0);
  const Tensor y = relu(x);
  const auto* found = static_cast<const uint16_t*>(y.raw_data());
  CHECK(found[n - 1] == kThree);
  for (int64_t at = 0; at < n - 1; at += static_cast<int64_t>(block.size())) {
    const int64_t length = std::min(static_cast<int64_t>(block.size()), n - 1 - at);
    INFO("elements from " << at);
    REQUIRE(std::equal(found + at, found + at + length, expected.begin()));
  }
}

void check_relu_counts_on_device(int64_t n) {
  Tensor x = full({n}, -1.0, DType::kFloat16, test_device());
  Tensor last = narrow(x, 0, n - 1, 1);
  fill_(last, 3.0);
  const Tensor y = relu(x);
  Tensor end = narrow(y, 0, n - 1, 1);
  CHECK(end.item() == 3.0);
  fill_(end, 0.0);
  CHECK(max(y).item() == 0.0);
  CHECK(sum(y).item() == 0.0);
}

TEST_CASE("CV-4: relu of more than 2^30 and 2^31 elements", "[device][slow][relu]") {
  if (on_cudasim()) {
    WARN("skipped: cudasim runs the last blocks of such sizes only, see large_elementwise_test");
    return;
  }
  // The larger one also passes what the smaller one does, where there is memory for it.
  for (const int64_t n : {(int64_t{1} << 31) + 512, int64_t{1073741825}}) {
    if (available_memory() < (on_cuda() ? 5 : 3) * n) continue;
    on_cuda() ? check_relu_counts_on_device(n) : check_relu_counts_on_cpu(n);
    memory::release_cached(test_device());
    return;
  }
  WARN("skipped: there are not 3 GiB of memory");
}

}  // namespace
}  // namespace heddle
