#pragma once

#include "heddle/nn/module.h"
#include "heddle/nn/ops.h"

namespace heddle {

/// The largest of each window.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pool2dOptions options) : options_(options) {}
  explicit MaxPool2d(int64_t kernel) : options_{.kernel = {kernel, kernel}} {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }
  std::string describe() const override;

 private:
  Pool2dOptions options_;
};

/// The mean of each window.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Pool2dOptions options) : options_(options) {}
  explicit AvgPool2d(int64_t kernel) : options_{.kernel = {kernel, kernel}} {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options_); }
  std::string describe() const override;

 private:
  Pool2dOptions options_;
};

/// The mean of each channel. Shapes: (N, C, H, W) -> (N, C, 1, 1).
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(int64_t size = 1);  ///< Errors: other than 1.
  Tensor forward(const Tensor& x) override { return global_avg_pool2d(x); }
  std::string describe() const override { return "AdaptiveAvgPool2d(1)"; }
};

}  // namespace heddle
