#pragma once

#include <optional>
#include <vector>

#include "heddle/apps/train_cifar/options.h"
#include "heddle/apps/train_cifar/step_runner.h"
#include "heddle/data/loader.h"
#include "heddle/nn/step_graph.h"
#include "heddle/parallel/data_parallel.h"
#include "heddle/parallel/replicated_optimizer.h"

namespace heddle::train_cifar {

/// Training steps on several devices, or on one that computes its batches in shards. With --graph,
/// steps on full batches are captured as one CUDA graph of all devices and replayed: the same bits.
class ReplicatedStep {
 public:
  /// Whether the flags ask for it.
  static bool wanted(const Options& options);
  /// `model` is replica 0 and `optimizer` its optimizer; all others begin as copies of them.
  /// `scaler` may be null.
  ReplicatedStep(const Options& options, Module& model, Optimizer& optimizer, GradScaler* scaler);

  /// The step after `step` others. Errors: a loss or, with --clip-norm, gradients that are not
  /// finite, or with a scaler more skips in a row than it bears; those of a replica, its device
  /// named.
  StepResult run(const Batch& batch, int64_t step, double lr_scale);
  /// Makes a loader's batches ones of parts that lie on their devices, as run() takes them.
  void feed(LoaderOptions& loader);
  /// Errors: replicas that have come to differ.
  void check() { parallel_.check_replicas(); }

  /// "2 on cpu,cpu; a batch in 2 shards; exchange direct".
  std::string describe() const;
  int64_t replays() const { return graph_ ? graph_->replays() : 0; }  ///< Of graphs, so far.

 private:
  StepResult run_by_graph(const Batch& batch, int64_t step);
  StepGraph::Tensors queue_step(const Batch& batch, int64_t step);
  StepGraph::Tensors whole_step(const std::vector<BatchPart>& parts, int64_t step);
  bool update(const Batch& batch, int64_t step);
  LossFunction loss_function() const;

  const Options& options_;
  DataParallel parallel_;
  ReplicatedOptimizer optimizer_;
  GradScaler* scaler_;
  std::optional<StepGraph> graph_;
};

}  // namespace heddle::train_cifar
