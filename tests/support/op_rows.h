#pragma once

#include "heddle/tests/support/op_harness.h"

/// How the harness runs a row: what its parts for the CPU and for CUDA devices share.
namespace heddle::testing {

/// The inputs of one run.
struct Prepared {
  Arrays values;
  Tensors tensors;
};

Prepared prepare(const OpCase& row, DType dtype, Layout layout, bool with_grad,
                 Device device = Device::cpu());

/// Gradients of all differentiable inputs, for a random incoming gradient in `layout`.
Tensors gradients(const OpCase& row, DType dtype, Layout layout, const Prepared& prepared);

/// The inputs at the same (rounded) values in float64 on the CPU, and their gradients for the same
/// incoming gradient, which is rounded to `dtype`.
Tensors exact_gradients(const OpCase& row, DType dtype, const Prepared& prepared);

/// The tolerance of a gradient of `n` elements where the result has `n_results`.
struct GradientTolerance {
  double relative, scale;
};
GradientTolerance gradient_tolerance(const OpCase& row, DType dtype, int64_t n, int64_t n_results);

inline constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kStrided, Layout::kTransposed,
                                      Layout::kChannelsLast, Layout::kUnaligned};
const char* name_of_layout(Layout layout);

double epsilon(DType dtype);  ///< Of the dtype: the distance from 1 to the next number.
double scale_of(int64_t n_accumulated);

}  // namespace heddle::testing
