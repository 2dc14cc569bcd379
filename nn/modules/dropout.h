#pragma once

#include <optional>

#include "heddle/core/rng.h"
#include "heddle/nn/module.h"

namespace heddle {

/// In training, zeroes each element with `probability` and scales the rest by 1/(1-probability).
/// The mask is a function of the seed at construction, the layer (its number among the initial
/// streams) and the step: that of Module::set_step, else the count of this layer's own forwards.
/// Errors: a probability outside [0, 1].
class Dropout : public Module {
 public:
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 protected:
  void on_step(int64_t step) override { step_ = step; }
  int64_t own_step() const override { return step_; }
  void on_copy(const Module& source) override;

 private:
  double probability_;
  uint64_t seed_;
  uint32_t layer_;
  int64_t step_ = 0;
};

}  // namespace heddle
