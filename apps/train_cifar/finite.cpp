#include "heddle/apps/train_cifar/finite.h"

#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {

std::string first_layer_not_finite(Module& model, const Tensor& images) {
  if (!all_finite(images)) return "the pictures themselves";
  const NoGradGuard no_grad;
  std::string found;
  const ForwardHook hook(
      model, [&](const std::string& name, Module& module, const Tensor&, const Tensor& y) {
        if (!found.empty() || all_finite(y)) return;
        found = fmt::format("{} ({})", name.empty() ? "the model" : name, module.describe());
      });
  model(images);
  return found.empty() ? "none (every layer's output is finite)" : found;
}

std::string describe_loss(double loss) {
  return std::isnan(loss) ? "the loss is NaN" : "the loss is infinite";
}

void fail_step(int64_t step, const std::string& what, Module& model, const Tensor& images) {
  fail("step {}: {}; first layer whose output is not finite: {}; the last checkpoint is kept",
       step + 1, what, first_layer_not_finite(model, images));
}

void fail_where_stuck(const GradScaler& scaler, int64_t step, Module& model, const Tensor& images) {
  if (!scaler.stuck()) return;
  fail_step(step,
            fmt::format("{} steps in a row were skipped, down to a loss scale of {}",
                        scaler.skips_in_a_row(), scaler.get_scale()),
            model, images);
}

void check_state_finite(const Module& model) {
  for (const auto& [name, tensor] : model.state())
    if (is_floating(tensor.dtype()) && !all_finite(tensor))
      fail("{} is not finite, and is not saved", name);
}

}  // namespace heddle::train_cifar
