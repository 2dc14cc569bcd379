#pragma once

#include <utility>

#include "heddle/nn/optim/optimizer.h"

namespace heddle {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;          ///< Outside of the root.
  double weight_decay = 0.0;  ///< Added to the gradient, unlike AdamW's.
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  ///< Decoupled: the parameter shrinks by lr * weight_decay.
};

/// Adam as in PyTorch; the formula is at AdamArgs. Source: Kingma and Ba 2014, arXiv:1412.6980.
/// Errors: a negative or non-finite option, a beta outside [0, 1).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  explicit Adam(std::vector<ParameterGroup<AdamOptions>> groups);

 private:
  double base_lr(size_t group) const override { return options_[group].lr; }
  void update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) override;
  std::vector<AdamOptions> options_;
};

/// Adam with decoupled weight decay. Source: Loshchilov and Hutter 2017, arXiv:1711.05101.
class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
  explicit AdamW(std::vector<ParameterGroup<AdamWOptions>> groups);

 private:
  double base_lr(size_t group) const override { return options_[group].lr; }
  void update(size_t group, std::span<const ParamSlot> slots, const StepFactors& factors) override;
  std::vector<AdamWOptions> options_;
};

}  // namespace heddle
