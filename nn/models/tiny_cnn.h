#pragma once

#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/dropout.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/pooling.h"

namespace heddle {

/// A network of 1,570 parameters for trials and tests, which has one of each kind of layer that
/// carries state or random numbers. A step takes about a millisecond.
/// Shapes: (N, 3, H, W) -> (N, classes).
class TinyCnn : public Module {
 public:
  explicit TinyCnn(int64_t classes = 10);
  Tensor forward(const Tensor& x) override { return fc(pool(dropout(conv2(bn1(conv1(x)))))); }
  std::string describe() const override { return "TinyCnn"; }

  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  Dropout& dropout;
  AdaptiveAvgPool2d& pool;
  Linear& fc;
};

}  // namespace heddle
