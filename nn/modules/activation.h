#pragma once

#include "heddle/nn/module.h"
#include "heddle/nn/ops.h"

namespace heddle {

/// y = max(0, x); NaN stays NaN.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
  std::string describe() const override { return "ReLU"; }
};

/// y = x Phi(x), with the normal distribution's Phi (the exact form).
class GELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return gelu(x); }
  std::string describe() const override { return "GELU"; }
};

}  // namespace heddle
