#pragma once

#include "heddle/apps/train_cifar/options.h"
#include "heddle/apps/train_cifar/step_runner.h"
#include "heddle/data/loader.h"
#include "heddle/parallel/data_parallel.h"
#include "heddle/parallel/replicated_optimizer.h"

namespace heddle::train_cifar {

/// Training steps on several devices, or on one that computes its batches in shards.
class ReplicatedStep {
 public:
  /// Whether the flags ask for it.
  static bool wanted(const Options& options);
  /// `model` is replica 0 and `optimizer` its optimizer; all others begin as copies of them.
  ReplicatedStep(const Options& options, Module& model, Optimizer& optimizer);

  /// The step after `step` others. Errors: a loss that is not finite; those of a replica, its
  /// device named.
  StepResult run(const Batch& batch, int64_t step, double lr_scale);
  /// Errors: replicas that have come to differ.
  void check() { parallel_.check_replicas(); }

 private:
  const Options& options_;
  DataParallel parallel_;
  ReplicatedOptimizer optimizer_;
};

}  // namespace heddle::train_cifar
