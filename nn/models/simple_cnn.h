#pragma once

#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"

namespace heddle {

/// The small network of CIFAR-10 tutorials: conv 3-32, conv 32-64, fc 65536-128, fc 128-10, with
/// ReLU between. Each ReLU is part of the layer before it, the flatten of fc1.
/// Shapes: (N, 3, 32, 32) -> (N, classes).
class SimpleCnn : public Module {
 public:
  explicit SimpleCnn(int64_t classes = 10);
  Tensor forward(const Tensor& x) override { return fc2(fc1(conv2(conv1(x)))); }
  std::string describe() const override { return "SimpleCnn"; }

  Conv2d& conv1;
  Conv2d& conv2;
  Linear& fc1;
  Linear& fc2;
};

}  // namespace heddle
