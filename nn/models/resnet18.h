#pragma once

#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/sequential.h"

namespace heddle {

/// relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), where x' is x, or bn(conv 1x1(x)) where the shape
/// changes. Source: He et al. 2015, arXiv:1512.03385; names of torchvision's BasicBlock.
class BasicBlock : public Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "BasicBlock"; }

 private:
  Conv2d& conv1_;
  BatchNorm2d& bn1_;
  Conv2d& conv2_;
  BatchNorm2d& bn2_;
  Sequential* downsample_ = nullptr;
};

/// ResNet-18 in its CIFAR form: a 3x3 stem of stride 1 and no max-pool.
/// Shapes: (N, 3, H, W) -> (N, classes).
class ResNet18 : public Module {
 public:
  explicit ResNet18(int64_t classes = 10);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "ResNet18"; }

  Conv2d& conv1;
  BatchNorm2d& bn1;
  Sequential& layer1;
  Sequential& layer2;
  Sequential& layer3;
  Sequential& layer4;
  Linear& fc;
};

}  // namespace heddle
