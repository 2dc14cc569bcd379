#pragma once

#include <optional>

#include "heddle/apps/train_cifar/options.h"
#include "heddle/data/loader.h"
#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/module.h"

namespace heddle::train_cifar {

struct StepResult {
  bool taken = true;  ///< False: the loss scaler skipped it, nothing has changed.
  double loss = 0.0;  ///< The batch's mean.
  int64_t n_correct = 0;
};

/// One training step on a batch: gradients of its parts, loss scaling, clipping, update.
class StepRunner {
 public:
  /// `model` and `optimizer` outlive it.
  StepRunner(const Options& options, Module& model, Optimizer& optimizer);

  /// The step after `step` others. Errors: a loss that is not finite, or more skips in a row than
  /// the scaler bears, naming the first layer that is not finite.
  StepResult run(const Batch& batch, int64_t step);

  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }  ///< With --precision fp16.

 private:
  /// What is left on the device of a part of the batch.
  struct Part {
    Tensor loss, predicted, labels;
  };

  std::vector<Part> forward_backward(const Batch& batch, int64_t step);
  bool update();
  StepResult read(const std::vector<Part>& parts, bool taken) const;

  const Options& options_;
  Module& model_;
  Optimizer& optimizer_;
  std::optional<GradScaler> scaler_;
};

}  // namespace heddle::train_cifar
