#pragma once

#include "heddle/nn/module.h"
#include "heddle/nn/ops.h"

namespace heddle {

/// (N, ...) -> (N, product of the rest), in logical order: an image stored channels-last is copied.
/// A Linear made with an ImageSize needs no Flatten before it.
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
  std::string describe() const override { return "Flatten"; }
};

}  // namespace heddle
