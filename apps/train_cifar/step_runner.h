#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "heddle/apps/train_cifar/options.h"
#include "heddle/data/loader.h"
#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/module.h"
#include "heddle/nn/step_graph.h"

namespace heddle::train_cifar {

struct StepResult {
  bool taken = true;  ///< False: the loss scaler skipped it, nothing has changed.
  double loss = 0.0;  ///< The batch's mean.
  int64_t n_correct = 0;
};

/// One training step on a batch: gradients of its parts, loss scaling, clipping, update. With
/// --graph, steps on full batches are captured as a CUDA graph and replayed: the same bits.
class StepRunner {
 public:
  /// `model` and `optimizer` outlive it.
  StepRunner(const Options& options, Module& model, Optimizer& optimizer);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// The step after `step` others. Errors: a loss that is not finite, or more skips in a row than
  /// the scaler bears, naming the first layer that is not finite.
  StepResult run(const Batch& batch, int64_t step, double lr_scale);

  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }      ///< With --precision fp16.
  int64_t replays() const { return graph_ ? graph_->replays() : 0; }  ///< Of graphs, so far.

 private:
  /// What is left on the device of a part of the batch.
  struct Part {
    Tensor loss, predicted, labels;
  };

  using LossCheck = std::function<void(const Tensor& images, const Tensor& loss)>;

  /// `check` is called before each part's backward, where no scaler looks at the gradients.
  std::vector<Part> forward_backward(const Tensor& images, const Tensor& labels,
                                     const LossCheck& check);
  bool update(const Tensor& images, int64_t step);
  StepResult run_by_graph(const Batch& batch, int64_t step);
  StepGraph::Tensors queue_step(const Batch& batch, int64_t step);
  StepGraph::Tensors whole_step(const Tensor& images, const Tensor& labels, int64_t step);
  StepResult read(const std::vector<Part>& parts, bool taken) const;
  [[noreturn]] void explain_refusal(const Batch& batch, const std::vector<Part>& parts,
                                    int64_t step);

  const Options& options_;
  Module& model_;
  Optimizer& optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<StepGraph> graph_;
};

}  // namespace heddle::train_cifar
