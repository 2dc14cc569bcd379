#include "heddle/nn/optim/adam.h"

#include "heddle/kernels/dispatch.h"
#include "heddle/nn/optim/groups.h"

namespace heddle {
namespace {

const std::vector<std::string> kMoments{"exp_avg", "exp_avg_sq"};

template <class Options>
void check_options(std::string_view name, const Options& options) {
  detail::check_not_negative(name, "lr", options.lr);
  detail::check_not_negative(name, "eps", options.eps);
  detail::check_not_negative(name, "weight_decay", options.weight_decay);
  const auto [beta1, beta2] = options.betas;
  HEDDLE_CHECK(beta1 >= 0.0 && beta1 < 1.0 && beta2 >= 0.0 && beta2 < 1.0,
               "{}: betas are {} and {}, expected at least 0 and below 1", name, beta1, beta2);
}

template <class Options, class StepFactors>
void adam_update(Device device, const Options& options, bool decoupled,
                 std::span<const ParamSlot> slots, const StepFactors& factors) {
  const AdamArgs args{.slots = slots,
                      .lr = options.lr * factors.lr_scale,
                      .beta1 = options.betas.first,
                      .beta2 = options.betas.second,
                      .eps = options.eps,
                      .weight_decay = options.weight_decay,
                      .decoupled = decoupled,
                      .grad_scale = factors.grad_scale,
                      .control = factors.control};
  HEDDLE_DISPATCH(device, adam_step, args);
}

}  // namespace

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options)
    : Adam(std::vector<ParameterGroup<AdamOptions>>{{std::move(parameters), options}}) {}

Adam::Adam(std::vector<ParameterGroup<AdamOptions>> groups)
    : Optimizer("Adam", detail::parameters_of(groups), kMoments),
      options_(detail::options_of(groups)) {
  for (const AdamOptions& options : options_) check_options("Adam", options);
}

void Adam::update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) {
  adam_update(device(), options_[group], false, slots, factors);
}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : AdamW(std::vector<ParameterGroup<AdamWOptions>>{{std::move(parameters), options}}) {}

AdamW::AdamW(std::vector<ParameterGroup<AdamWOptions>> groups)
    : Optimizer("AdamW", detail::parameters_of(groups), kMoments),
      options_(detail::options_of(groups)) {
  for (const AdamWOptions& options : options_) check_options("AdamW", options);
}

void AdamW::update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) {
  adam_update(device(), options_[group], true, slots, factors);
}

}  // namespace heddle
