#pragma once

#include <cmath>
#include <span>

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

inline constexpr double kClipEpsilon = 1e-6;  ///< PyTorch's, beside a norm that is divided by

/// One parameter of a fused optimizer step: flat arrays of `n` elements in one storage order,
/// whatever that order is. Optimizer state is float64 for float64 parameters, else float32.
struct ParamSlot {
  void* p = nullptr;        // (n), dtype
  const void* g = nullptr;  // (n), dtype
  void* m = nullptr;        // (n), state: SGD's momentum buffer, Adam's first moment
  void* v = nullptr;        // (n), state: Adam's second moment
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  int64_t step = 1;  // number of this update of this parameter; at 1 the state is not read
  void* p_cast =
      nullptr;  // (n), cast_dtype: gets p's new values too; may be null. On the CPU alone
  DType cast_dtype = DType::kBFloat16;
};

/// What changes from step to step, in memory of the op's device: a captured step reads it at each
/// replay. Where there is none, steps are as if it had these values.
struct StepControl {
  double lr_scale = 1.0;    // times lr
  double grad_scale = 1.0;  // times grad_scale
  int64_t steps = 0;        // added to each slot's `step`
  float found_inf = 0.0F;   // above 0: nothing is changed. A float, so that replicas' can be summed
};

/// Decides on a step before it is taken, in memory of the device and without the host:
/// control->found_inf becomes 1 where `finite` or `squares` says that a gradient is not finite, and
/// where `squares` is there, control->grad_scale *= min(1, max_norm / (norm + 1e-6)) with the norm
/// of the gradients times grad_scale (PyTorch's clip_grad_norm_).
struct PrepareStepArgs {
  StepControl* control = nullptr;
  const bool* finite = nullptr;     // what gradients_finite wrote, or null
  const double* squares = nullptr;  // what gradient_squares wrote, or null: no clipping
  double max_norm = 0.0;
};

/// With d = grad_scale * g + weight_decay * p:
/// m = momentum * m + (1 - dampening) * d (at step 1: d), p -= lr * m; Nesterov: p -= lr * (d +
/// momentum * m); without momentum: p -= lr * d, and m is not touched.
struct SgdArgs {
  std::span<const ParamSlot> slots;
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  double grad_scale = 1.0;  // clip coefficient, inverse loss scale: no pass of their own
  const StepControl* control = nullptr;
};

/// With d = grad_scale * g (+ weight_decay * p where not `decoupled`):
/// m = beta1 * m + (1 - beta1) * d, v = beta2 * v + (1 - beta2) * d^2,
/// p = p * (1 - lr * weight_decay where `decoupled`)
///     - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps).
struct AdamArgs {
  std::span<const ParamSlot> slots;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  // AdamW
  double grad_scale = 1.0;
  const StepControl* control = nullptr;
};

/// *sum = sum of g^2 over all slots (of `p` and state nothing is read), added in float64 in a fixed
/// order. Not finite exactly where an element is not, unless the squares pass float64's range.
struct GradientSquaresArgs {
  std::span<const ParamSlot> slots;
  double* sum;
};

/// *finite = no element of a gradient is NaN or infinite.
struct GradientsFiniteArgs {
  std::span<const ParamSlot> slots;
  bool* finite;
};

/// The rule of prepare_step, the same on every device.
HEDDLE_INLINE void decide_step(const PrepareStepArgs& args) {
  StepControl control = *args.control;
  bool finite = args.finite == nullptr || *args.finite;
  if (args.squares != nullptr) {
    const double norm = std::sqrt(*args.squares) * control.grad_scale;
    finite = finite && norm - norm == 0.0;
    const double factor = args.max_norm / (norm + kClipEpsilon);
    if (factor < 1.0) control.grad_scale *= factor;
  }
  if (!finite) control.found_inf = 1.0F;
  *args.control = control;
}

namespace cpu {
void sgd_step(const SgdArgs& args);
void adam_step(const AdamArgs& args);
void gradient_squares(const GradientSquaresArgs& args);
void gradients_finite(const GradientsFiniteArgs& args);
void prepare_step(const PrepareStepArgs& args);
}  // namespace cpu

namespace cuda {
void sgd_step(const SgdArgs& args, StreamRef stream);
void adam_step(const AdamArgs& args, StreamRef stream);
void gradient_squares(const GradientSquaresArgs& args, StreamRef stream);
void gradients_finite(const GradientsFiniteArgs& args, StreamRef stream);
void prepare_step(const PrepareStepArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
