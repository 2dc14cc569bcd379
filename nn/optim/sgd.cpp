#include "heddle/nn/optim/sgd.h"

#include "heddle/kernels/dispatch.h"
#include "heddle/nn/optim/groups.h"

namespace heddle {
namespace {

std::vector<std::string> moments_of(const std::vector<ParameterGroup<SgdOptions>>& groups) {
  for (const auto& group : groups)
    if (group.options.momentum != 0.0) return {"momentum_buffer"};
  return {};
}

void check_options(const SgdOptions& options) {
  detail::check_not_negative("Sgd", "lr", options.lr);
  detail::check_not_negative("Sgd", "momentum", options.momentum);
  detail::check_not_negative("Sgd", "weight_decay", options.weight_decay);
  HEDDLE_CHECK(std::isfinite(options.dampening), "Sgd: dampening is {}, expected a finite number",
               options.dampening);
  HEDDLE_CHECK(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
               "Sgd: nesterov with momentum {} and dampening {}, expected momentum above 0 and no "
               "dampening",
               options.momentum, options.dampening);
}

}  // namespace

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options)
    : Sgd(std::vector<ParameterGroup<SgdOptions>>{{std::move(parameters), options}}) {}

Sgd::Sgd(std::vector<ParameterGroup<SgdOptions>> groups)
    : Optimizer("Sgd", detail::parameters_of(groups), moments_of(groups)),
      options_(detail::options_of(groups)) {
  for (const SgdOptions& options : options_) check_options(options);
}

void Sgd::update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) {
  const SgdOptions& options = options_[group];
  const SgdArgs args{.slots = slots,
                     .lr = options.lr * factors.lr_scale,
                     .momentum = options.momentum,
                     .dampening = options.dampening,
                     .weight_decay = options.weight_decay,
                     .nesterov = options.nesterov,
                     .grad_scale = factors.grad_scale,
                     .control = factors.control};
  HEDDLE_DISPATCH(device(), sgd_step, args);
}

}  // namespace heddle
