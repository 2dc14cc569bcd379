#include "heddle/tests/support/op_harness.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "heddle/core/memory_guards.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_rows.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::testing {
namespace {

constexpr int64_t kCheckedPositions = 24;    // of an input, for central differences: each costs two
constexpr int64_t kCheckedElements = 50000;  // forward passes, so fewer of a large input
constexpr double kGradientTolerance = 1e-6;

void check_value(const OpCase& row, DType dtype, Layout layout) {
  INFO("inputs " << name_of_layout(layout) << ", " << name_of(dtype));
  const NoGradGuard no_grad;
  const Prepared prepared = prepare(row, dtype, layout, false);
  const Tensor y = row.op(prepared.tensors);
  const DType expected_dtype = row.result_dtype.value_or(dtype);
  CHECK(name_of(y.dtype()) == name_of(expected_dtype));
  check_close(to_array(y), row.oracle(prepared.values),
              row.tolerance_factor * tol(expected_dtype, row.n_accumulated),
              scale_of(row.n_accumulated));
}

void check_thread_counts(const OpCase& row, DType dtype) {
  Tensor first;
  for_each_thread_count([&](int n) {
    INFO(n << " threads, " << name_of(dtype));
    const NoGradGuard no_grad;
    const Tensor y = row.op(prepare(row, dtype, Layout::kPlain, false).tensors);
    if (!first.defined()) first = y;
    check_same_bits(y, first);
  });
}

/// sum(dy * (op(x + h) - op(x - h))) / 2h for one element.
double central_difference(const OpCase& row, const Prepared& prepared, size_t input, int64_t place,
                          const Array& dy) {
  const NoGradGuard no_grad;
  const double x = prepared.values[input][place];
  const double h = 1e-6 * std::max(1.0, std::abs(x));
  Array moved = prepared.values[input];
  Tensors tensors = prepared.tensors;
  Array y[2];
  for (int side : {0, 1}) {
    moved[place] = side == 0 ? x - h : x + h;
    tensors[input] = in_layout(moved, DType::kFloat64, Layout::kPlain);
    y[side] = to_array(row.op(tensors));
  }
  double sum = 0.0;
  for (int64_t i = 0; i < dy.n(); ++i) sum += dy[i] * (y[1][i] - y[0][i]);
  return sum / (2 * h);
}

void check_central_differences(const OpCase& row, const Prepared& prepared, const Tensors& grads,
                               const Array& dy) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!prepared.tensors[i].requires_grad()) continue;
    REQUIRE(grads[i].defined());
    const Array got = to_array(grads[i]);
    CHECK(got.shape == row.inputs[i].shape);
    const int64_t wanted =
        std::clamp(kCheckedElements / std::max<int64_t>(1, got.n()), int64_t{2}, kCheckedPositions);
    const int64_t step = std::max<int64_t>(1, got.n() / wanted);
    for (int64_t place = 0; place < got.n(); place += step) {
      const double expected = central_difference(row, prepared, i, place, dy);
      const double scale = std::max({1.0, std::abs(expected), scale_of(row.n_accumulated)});
      if (std::abs(got[place] - expected) <= kGradientTolerance * scale) continue;
      FAIL_CHECK("gradient of input " << i << " at element " << place << ": " << got[place]
                                      << ", central difference " << expected);
      return;
    }
  }
}

void check_gradients(const OpCase& row) {
  INFO("gradient, float64");
  const Prepared prepared = prepare(row, DType::kFloat64, Layout::kPlain, true);
  const Tensors dense = gradients(row, DType::kFloat64, Layout::kPlain, prepared);
  Shape y_shape;
  {
    const NoGradGuard no_grad;
    y_shape = row.op(prepared.tensors).shape();
  }
  const Array dy = random_array(row.name, 99, {.shape = y_shape}, DType::kFloat64);
  check_central_differences(row, prepared, dense, dy);
  for (const Layout layout : kLayouts) {
    INFO("inputs and incoming gradient " << name_of_layout(layout));
    const Prepared same = prepare(row, DType::kFloat64, layout, true);
    const Tensors grads = gradients(row, DType::kFloat64, layout, same);
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].defined())
        check_close(to_array(grads[i]), to_array(dense[i]), 1e-11, scale_of(y_shape.size()));
  }
}

/// Gradients of another dtype against the float64 ones at the same (rounded) values.
void check_gradients_of(const OpCase& row, DType dtype) {
  INFO("gradient, " << name_of(dtype));
  const Prepared prepared = prepare(row, dtype, Layout::kPlain, true);
  const Tensors grads = gradients(row, dtype, Layout::kPlain, prepared);
  const Tensors exact = exact_gradients(row, dtype, prepared);
  const NoGradGuard no_grad;
  const int64_t n_results = row.op(prepared.tensors).numel();
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    INFO("input " << i);
    const auto [relative, scale] = gradient_tolerance(row, dtype, grads[i].numel(), n_results);
    check_close(to_array(grads[i]), to_array(exact[i]), relative, scale);
  }
}

void check_gradient_thread_counts(const OpCase& row) {
  Tensors first;
  for_each_thread_count([&](int n) {
    INFO("gradient with " << n << " threads");
    const Tensors grads = gradients(row, DType::kFloat32, Layout::kPlain,
                                    prepare(row, DType::kFloat32, Layout::kPlain, true));
    if (first.empty()) first = grads;
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].defined()) check_same_bits(grads[i], first[i]);
  });
}

void check_native(const OpCase& row) {
  const test::ProviderScope native(Provider::kNative);
  for (const DType dtype : row.dtypes) {
    for (const Layout layout : kLayouts) check_value(row, dtype, layout);
    check_thread_counts(row, dtype);
    for_each_isa([&] { check_value(row, dtype, Layout::kPlain); });
  }
  if (!row.gradient) return;
  check_gradients(row);
  for (const DType dtype : row.dtypes) {
    if (!is_floating(dtype) || dtype == DType::kFloat64) continue;
    for_each_isa([&] { check_gradients_of(row, dtype); });
  }
  check_gradient_thread_counts(row);
}

void check_vendor(const OpCase& row) {
  if (!built_with_vendor()) return;
  INFO("by the vendor's library");
  const test::ProviderScope vendor(Provider::kVendor);
  for (const DType dtype : row.dtypes) {
    check_value(row, dtype, Layout::kPlain);
    if (row.gradient && is_floating(dtype) && dtype != DType::kFloat64)
      check_gradients_of(row, dtype);
  }
}

}  // namespace

Array filled_array(const Shape& shape, double value) {
  return {shape, std::vector<double>(static_cast<size_t>(numel(shape)), value)};
}

Array to_array(const Tensor& x) { return {x.shape(), x.to_vector<double>()}; }

const std::vector<DType>& floating_dtypes() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                         DType::kFloat16};
  return dtypes;
}

const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                         DType::kFloat16, DType::kUInt8,   DType::kInt64};
  return dtypes;
}

const std::vector<int64_t>& odd_sizes() {
  static const std::vector<int64_t> sizes{0, 1, 31, 32, 33, 1023, 1025};
  return sizes;
}

void check_close(const Array& got, const Array& expected, double tolerance, double scale) {
  CHECK(got.shape == expected.shape);
  if (got.n() != expected.n()) return;
  for (int64_t i = 0; i < got.n(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    const double allowed = tolerance * std::max({1.0, std::abs(expected[i]), scale});
    if (same || (std::isfinite(expected[i]) && std::abs(got[i] - expected[i]) <= allowed)) continue;
    FAIL_CHECK("element " << i << " of " << to_string(got.shape) << " is " << got[i]
                          << ", expected " << expected[i] << " within " << allowed);
    return;
  }
}

void check_same_bits(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape());
  CHECK(name_of(a.dtype()) == name_of(b.dtype()));
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (std::bit_cast<uint64_t>(x[i]) == std::bit_cast<uint64_t>(y[i])) continue;
    FAIL_CHECK("element " << i << " of " << to_string(a.shape()) << " is " << x[i] << " and "
                          << y[i] << ", expected the same bits");
    return;
  }
}

void check_error(const std::function<void()>& run, const std::string& text) {
  try {
    run();
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring(text));
    return;
  }
  FAIL_CHECK("nothing was thrown, expected an error with: " << text);
}

void for_each_isa(const std::function<void()>& body) {
  struct Restore {
    cpu::Isa isa = cpu::active_isa();
    ~Restore() { cpu::set_active_isa(isa); }
  } const restore;
  for (const cpu::Isa isa : cpu::available_isas()) {
    INFO("instruction set " << cpu::name_of(isa));
    cpu::set_active_isa(isa);
    body();
    if (on_cuda()) return;  // it would be the same again
  }
}

void for_each_thread_count(const std::function<void(int)>& body) {
  struct Restore {
    int n = num_threads();
    ~Restore() { set_num_threads(n); }
  } const restore;
  for (const int n : {1, 2, 3, 5}) {
    set_num_threads(n);
    body(n);
  }
}

void check_op(const OpCase& row) {
  INFO("case " << row.name);
  if (on_cuda()) return check_op_on_device(row, test_device());
  const int64_t damaged = MemoryGuards::damaged();
  {
    const MemoryGuards guards;
    check_native(row);
    check_vendor(row);
  }
  INFO("bytes before or after a block of memory were overwritten");
  CHECK(MemoryGuards::damaged() == damaged);
}

}  // namespace heddle::testing
