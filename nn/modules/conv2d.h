#pragma once

#include "heddle/nn/module.h"
#include "heddle/nn/modules/size2d.h"
#include "heddle/nn/ops.h"

namespace heddle {

struct Conv2dLayerOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  bool fuse_relu = false;  ///< y = max(0, conv + bias): no pass of its own for the ReLU.
};

/// y = conv(x, weight) + bias.
/// Shapes: x (N, in, H, W), weight (out, in/groups, kH, kW), bias (out), y (N, out, H', W'). The
/// weight is stored channels-last.
/// Numerics: initial values U(-b, b), b = 1/sqrt(in/groups * kH * kW), as PyTorch's.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in, int64_t out, Size2d kernel, Conv2dLayerOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
  int64_t flops(const Tensor& x, const Tensor& y) const override;

  Tensor& weight;
  Tensor bias() const { return bias_ != nullptr ? *bias_ : Tensor(); }  ///< Undefined: has none.

 private:
  Conv2dOptions options_;
  Tensor* bias_ = nullptr;
};

}  // namespace heddle
