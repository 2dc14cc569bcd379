#pragma once

#include "heddle/nn/module.h"
#include "heddle/nn/ops.h"

namespace heddle {

struct BatchNorm2dOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< Weight of the new value.
  bool fuse_relu = false;
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias, with the statistics of the batch in training
/// (which move the running ones) and the running ones otherwise.
/// Shapes: x (N, C, H, W); weight, bias, running_mean, running_var (C); num_batches_tracked ()
/// int64. Numerics: biased variance inside, unbiased in running_var, as PyTorch's. Errors: one
/// value per channel in training.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(int64_t channels, BatchNorm2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Tensor& weight;
  Tensor& bias;
  Tensor& running_mean;
  Tensor& running_var;
  Tensor& num_batches_tracked;

 protected:
  /// Statistics want more digits than 16 bits have: they and the affine stay in float32 then.
  DType stored_dtype(DType asked) const override {
    return size_of(asked) == 2 ? DType::kFloat32 : asked;
  }

 private:
  BatchNorm2dOptions options_;
};

}  // namespace heddle
