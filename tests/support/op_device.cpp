// The op harness on a CUDA device, cudasim's or a real one.
#include <algorithm>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_rows.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::testing {
namespace {

/// Elements of a row's inputs beyond which it is run in fewer ways: cudasim takes about a
/// microsecond for each access of each thread.
constexpr int64_t kSmallRow = 4096;

int64_t elements(const OpCase& row) {
  int64_t n = 0;
  for (const OpInput& input : row.inputs) n += numel(input.shape);
  return n;
}

bool is_small(const OpCase& row) { return elements(row) <= kSmallRow; }

std::vector<Layout> layouts_of(const OpCase& row, DType dtype) {
  if (!is_small(row)) return {Layout::kPlain};
  if (dtype == DType::kFloat32) return {std::begin(kLayouts), std::end(kLayouts)};
  return {Layout::kPlain, Layout::kUnaligned};
}

/// cudasim runs blocks in a fixed order: a second run of a large row would show nothing new.
bool is_repeated(const OpCase& row) { return is_small(row) || !on_cudasim(); }

/// float64 is computed on the CPU, but for ops that move bytes: such a row may be refused.
bool refused(const OpCase& row, const Prepared& prepared) {
  try {
    row.op(prepared.tensors);
    return false;
  } catch (const Error& error) {
    if (std::string(error.what()).find("float64 is computed on the CPU") == std::string::npos)
      throw;
    return true;
  }
}

void check_value(const OpCase& row, DType dtype, Layout layout, Device device) {
  INFO("inputs " << name_of_layout(layout) << ", " << name_of(dtype));
  const NoGradGuard no_grad;
  const Prepared prepared = prepare(row, dtype, layout, false, device);
  if (dtype == DType::kFloat64 && refused(row, prepared)) return;
  const Tensor y = row.op(prepared.tensors);
  const DType expected_dtype = row.result_dtype.value_or(dtype);
  CHECK(name_of(y.dtype()) == name_of(expected_dtype));
  CHECK(y.device() == device);
  const double tolerance = row.tolerance_factor * tol(expected_dtype, row.n_accumulated);
  const double scale = scale_of(row.n_accumulated);
  check_close(to_array(y), row.oracle(prepared.values), tolerance, scale);
  if (layout != Layout::kPlain) return;
  const Tensor on_cpu = row.op(prepare(row, dtype, layout, false).tensors);
  INFO("against the CPU's result");
  check_close(to_array(y), to_array(on_cpu), 2.0 * tolerance, scale);
  if (is_repeated(row)) check_same_bits(row.op(prepared.tensors), y);
}

/// The gradients for one layout of inputs and incoming gradient against the CPU's in float64.
void check_gradient(const OpCase& row, DType dtype, Layout layout, Device device,
                    const Tensors& exact, int64_t n_results) {
  INFO("gradient, " << name_of_layout(layout) << ", " << name_of(dtype));
  const Prepared prepared = prepare(row, dtype, layout, true, device);
  const Tensors grads = gradients(row, dtype, layout, prepared);
  for (size_t i = 0; i < grads.size(); ++i) {
    CHECK(grads[i].defined() == exact[i].defined());
    if (!grads[i].defined() || !exact[i].defined()) continue;
    INFO("input " << i);
    CHECK(grads[i].device() == device);
    const auto [relative, scale] = gradient_tolerance(row, dtype, grads[i].numel(), n_results);
    check_close(to_array(grads[i]), to_array(exact[i]), relative, scale);
  }
  if (layout != Layout::kPlain || !is_repeated(row)) return;
  const Tensors again = gradients(row, dtype, layout, prepare(row, dtype, layout, true, device));
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined()) check_same_bits(again[i], grads[i]);
}

void check_gradients(const OpCase& row, DType dtype, Device device) {
  const Prepared on_cpu = prepare(row, dtype, Layout::kPlain, true);
  const Tensors exact = exact_gradients(row, dtype, on_cpu);
  int64_t n_results = 0;
  {
    const NoGradGuard no_grad;
    n_results = row.op(on_cpu.tensors).numel();
  }
  for (const Layout layout : layouts_of(row, dtype))
    check_gradient(row, dtype, layout, device, exact, n_results);
}

/// Whether cuBLAS or cuDNN may compute the row: its name begins with the op's.
bool has_cuda_vendor(const OpCase& row) {
  const std::string op = row.name.substr(0, row.name.find(' '));
  const std::string ops[] = {"avg_pool2d",  "batch_norm", "conv2d",    "linear",
                             "log_softmax", "matmul",     "max_pool2d"};
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

void check_row(const OpCase& row, Device device) {
  for (const DType dtype : row.dtypes) {
    if (!is_small(row) && dtype == DType::kFloat64) continue;
    for (const Layout layout : layouts_of(row, dtype)) check_value(row, dtype, layout, device);
    if (row.gradient && is_floating(dtype) && dtype != DType::kFloat64)
      check_gradients(row, dtype, device);
  }
}

}  // namespace

void check_op_on_device(const OpCase& row, Device device) {
  const int64_t findings = count_findings();
  {
    const test::ProviderScope native(Provider::kNative);
    check_row(row, device);
  }
  if (has_cuda_vendor(row) && is_small(row) && built_with_vendor()) {
    INFO("by the vendor's library");
    const test::ProviderScope vendor(Provider::kVendor);
    check_row(row, device);
  }
  INFO("cudasim's checks found something, see above");
  CHECK(count_findings() == findings);
}

}  // namespace heddle::testing
