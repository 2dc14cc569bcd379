#pragma once

#include "heddle/nn/module.h"

namespace heddle {

struct LinearOptions {
  bool bias = true;
  bool fuse_relu = false;  ///< y = max(0, x weight^T + bias)
};

/// Channels, rows and columns of the image that a Linear takes.
struct ImageSize {
  int64_t channels, rows, columns;
};

/// y = x weight^T + bias.
/// Shapes: x (..., in), weight (out, in), bias (out), y (..., out). Made with an ImageSize it takes
/// images (N, C, H, W) and flattens them in logical order at no cost: the weight is then stored as
/// a channels-last (out, C, H, W), and shows in the state as (out, C*H*W).
/// Numerics: initial values U(-b, b), b = 1/sqrt(in), as PyTorch's.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, LinearOptions options = {});
  Linear(ImageSize in, int64_t out, LinearOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
  int64_t flops(const Tensor& x, const Tensor& y) const override;

  Tensor& weight;
  Tensor bias() const { return bias_ != nullptr ? *bias_ : Tensor(); }  ///< Undefined: has none.

 private:
  Linear(Tensor weight, int64_t in, int64_t out, LinearOptions options);
  bool fuse_relu_;
  Tensor* bias_ = nullptr;
};

}  // namespace heddle
