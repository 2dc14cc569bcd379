// Values that the rows of the ops' own tests do not reach, on a device against the CPU: numbers at
// the edge of what a dtype holds, views that are written in place, conversions, and nothing at all.
#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

const std::vector<DType>& device_dtypes() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  return dtypes;
}

/// make(device) is the same on the test's device as on the CPU, but for the roundings of one
/// function; NaN and infinities too.
void check_same(const std::string& what, const std::function<Tensor(Device)>& make,
                double tolerance = 0.0) {
  INFO(what);
  const int64_t findings = count_findings();
  const Tensor there = make(test_device()), here = make(Device::cpu());
  CHECK(there.device() == test_device());
  CHECK(name_of(there.dtype()) == name_of(here.dtype()));
  check_close(to_array(there), to_array(here), tolerance);
  CHECK(count_findings() == findings);
}

Tensor values(Device device, DType dtype, const std::vector<double>& numbers) {
  return to(to(Tensor::from(numbers, {static_cast<int64_t>(numbers.size())}), dtype), device);
}

Tensor random_values(Device device, const Shape& shape, DType dtype = DType::kFloat32) {
  return to(to(randn(shape, Rng(6, RngPurpose::kUser)), dtype), device);
}

}  // namespace

TEST_CASE("functions at infinity, NaN, large numbers and zero, on a device",
          "[device][exp][log][sqrt][tanh][sigmoid][relu][gelu][neg]") {
  const std::vector<double> edges{INFINITY, -INFINITY, NAN, 6e4, -6e4, 0.0, 1e-7, -1e-7};
  using Op = Tensor (*)(const Tensor&);
  const Op ops[] = {exp, log, sqrt, tanh, sigmoid, relu, gelu, neg};
  for (const DType dtype : device_dtypes()) {
    for (size_t k = 0; k < std::size(ops); ++k) {
      const auto run = [&](Device device) { return ops[k](values(device, dtype, edges)); };
      check_same(std::to_string(k) + " " + std::string(name_of(dtype)), run, tol(dtype, 1));
    }
  }
}

TEST_CASE("in-place arithmetic on a device, over dense, strided and broadcast views",
          "[device][add_][mul_][fill_]") {
  for (const DType dtype : device_dtypes()) {
    check_same(
        "add_ " + std::string(name_of(dtype)),
        [&](Device device) {
          Tensor x = random_values(device, {33, 17}, dtype);
          Tensor column = narrow(x, 1, 3, 5);
          add_(column, random_values(device, {5}, dtype), -0.5);
          add_(x, 2.0);
          return x;
        },
        tol(dtype, 1));
    check_same(
        "mul_ " + std::string(name_of(dtype)),
        [&](Device device) {
          Tensor x = random_values(device, {33, 17}, dtype);
          Tensor turned = transpose(x, 0, 1);
          mul_(turned, random_values(device, {17, 1}, dtype));
          mul_(x, x);
          mul_(x, 0.5);
          return x;
        },
        tol(dtype, 1));
    check_same("fill_ " + std::string(name_of(dtype)), [&](Device device) {
      Tensor x = random_values(device, {33, 17}, dtype);
      Tensor part = narrow(transpose(x, 0, 1), 1, 1, 31);
      fill_(part, 1.5);
      return x;
    });
  }
}

TEST_CASE("copy_ converts and writes views on a device", "[device][copy_][to]") {
  for (const DType from : all_dtypes()) {
    for (const DType into : all_dtypes()) {
      check_same(std::string(name_of(from)) + " to " + std::string(name_of(into)),
                 [&](Device device) {
                   const Tensor source = values(device, from, {0, 1, 2, 100, 127, 3, 250, 7});
                   Tensor target = to(zeros({8, 2}, into), device);
                   Tensor column = narrow(target, 1, 1, 1);
                   copy_(column, reshape(source, {8, 1}));
                   return target;
                 });
    }
  }
}

TEST_CASE("conversions keep infinities, NaN and gradients on a device", "[device][to]") {
  for (const DType from : device_dtypes()) {
    for (const DType into : device_dtypes()) {
      check_same("values", [&](Device device) {
        return to(values(device, from, {INFINITY, -INFINITY, NAN, 65504, 1e-8, -0.0}), into);
      });
      check_same("gradient", [&](Device device) {
        Tensor x = random_values(device, {40}, from);
        x.set_requires_grad();
        to(x, into).backward(random_values(device, {40}, into));
        return x.grad();
      });
    }
  }
}

TEST_CASE("tensors are made on a device", "[device][full][zeros][ones][arange]") {
  for (const DType dtype : all_dtypes()) {
    if (dtype == DType::kFloat64) continue;  // computed on the CPU
    check_same("full", [&](Device d) { return full({33, 2}, 7.0, dtype, d); });
    check_same("zeros", [&](Device d) { return zeros({0, 3}, dtype, d); });
    check_same("ones", [&](Device d) { return ones({1025}, dtype, d); });
    check_same("arange", [&](Device d) { return arange(200, dtype, d); });
  }
}

TEST_CASE("arithmetic and comparisons of mixed dtypes on a device", "[device][add][mul][lt][eq]") {
  for (const DType a : device_dtypes()) {
    for (const DType b : device_dtypes()) {
      const auto x = [&](Device d) { return random_values(d, {33, 1}, a); };
      const auto y = [&](Device d) { return random_values(d, {1, 31}, b); };
      check_same("add", [&](Device d) { return add(x(d), y(d)); });
      check_same("mul", [&](Device d) { return mul(x(d), y(d)); });
      check_same("lt", [&](Device d) { return lt(x(d), y(d)); });
      check_same("eq", [&](Device d) { return eq(x(d), to(x(d), b)); });
    }
  }
}

TEST_CASE("all_finite on a device finds one bad element wherever it is", "[device][all_finite]") {
  for (const DType dtype : device_dtypes()) {
    for (const int64_t n : odd_sizes()) {
      INFO(name_of(dtype) << " " << n);
      const Tensor good = full({n}, -3.0, dtype, test_device());
      CHECK(all_finite(good));
      if (n == 0) continue;
      for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
          const Tensor y = clone(good);
          Tensor one = narrow(y, 0, place, 1);
          fill_(one, bad);
          CHECK_FALSE(all_finite(y));
        }
      }
    }
  }
}

TEST_CASE("reductions over nothing on a device", "[device][sum]") {
  check_same("all", [](Device d) { return sum(zeros({0}, DType::kFloat32, d)); });
  check_same("rows", [](Device d) { return sum(zeros({3, 0}, DType::kFloat32, d), {1}); });
  check_same("columns", [](Device d) { return sum(zeros({0, 3}, DType::kFloat16, d), {0}); });
}

TEST_CASE("cross_entropy on a device takes labels of any strides", "[device][cross_entropy]") {
  check_same(
      "labels",
      [](Device device) {
        const Tensor both = to(Tensor::from<int64_t>({2, 99, 0, 99, 1, 99}, {3, 2}), device);
        Tensor x = random_values(device, {3, 3});
        x.set_requires_grad();
        cross_entropy(x, reshape(narrow(both, 1, 0, 1), {3})).backward();
        return x.grad();
      },
      1e-6);
}

TEST_CASE("dropout on a device outside of training, and with probability 0 or 1",
          "[device][dropout]") {
  for (const DType dtype : device_dtypes()) {
    const auto dropped = [&](double probability, bool training) {
      check_same("dropout", [&](Device device) {
        Tensor x = random_values(device, {257}, dtype);
        x.set_requires_grad();
        const Tensor y = dropout(x, probability, Rng(1, RngPurpose::kDropout), training);
        sum(y).backward();
        return add(y.detach(), x.grad());
      });
    };
    dropped(0.0, true);
    dropped(1.0, true);
    dropped(0.5, false);
  }
}

TEST_CASE("NU-9: batch_norm of two values on a device moves the statistics as PyTorch does",
          "[device][batch_norm]") {
  const Tensor x = on_test_device(Tensor::from<float>({1, 3}, {2, 1}));
  const Tensor weight = ones({1}, DType::kFloat32, test_device());
  const Tensor bias = zeros({1}, DType::kFloat32, test_device());
  Tensor mean = zeros({1}, DType::kFloat32, test_device());
  Tensor var = ones({1}, DType::kFloat32, test_device());
  const auto y = batch_norm(x, weight, bias, mean, var).to_vector<float>();
  CHECK(y[0] == Approx(-0.999995));
  CHECK(y[1] == Approx(0.999995));
  CHECK(mean.item() == Approx(0.2));
  CHECK(var.item() == Approx(1.1));
  check_error([&] { batch_norm(narrow(x, 0, 0, 1), weight, bias, mean, var); }, "batch_norm");
  CHECK(mean.item() == Approx(0.2));
}

}  // namespace heddle
