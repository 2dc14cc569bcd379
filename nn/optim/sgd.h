#pragma once

#include "heddle/nn/optim/optimizer.h"

namespace heddle {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;  ///< Added to the gradient.
  bool nesterov = false;
};

/// Stochastic gradient descent, PyTorch's SGD; the formula is at SgdArgs.
/// Errors: a negative or non-finite option; Nesterov without momentum or with dampening.
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<Tensor> parameters, SgdOptions options = {});
  explicit Sgd(std::vector<ParameterGroup<SgdOptions>> groups);

 private:
  double base_lr(size_t group) const override { return options_[group].lr; }
  void update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) override;
  std::vector<SgdOptions> options_;
};

}  // namespace heddle
