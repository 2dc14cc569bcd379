#pragma once

#include <string>
#include <vector>

#include "heddle/apps/train_cifar/data_sets.h"
#include "heddle/apps/train_cifar/evaluate.h"
#include "heddle/apps/train_cifar/options.h"
#include "heddle/apps/train_cifar/progress.h"
#include "heddle/apps/train_cifar/replicated_step.h"
#include "heddle/apps/train_cifar/run_folder.h"
#include "heddle/apps/train_cifar/run_state.h"
#include "heddle/apps/train_cifar/step_runner.h"
#include "heddle/nn/module.h"
#include "heddle/nn/optim/optimizer.h"
#include "heddle/nn/optim/schedule.h"

namespace heddle::train_cifar {

/// The record of a run that goes into config.json and, with where it stands, into checkpoints.
struct RunRecord {
  nlohmann::ordered_json settings;  ///< Flags by name.
  nlohmann::ordered_json data;      ///< Kind and sizes.
  std::vector<std::string> command;
  nlohmann::ordered_json to_json() const;  ///< With version, machine and provider choices of now.
};

/// What training moves. All outlive the Trainer.
struct TrainingParts {
  Module& model;
  Optimizer& optimizer;
  const Schedule& schedule;
  RunFolder& folder;
  StepRunner& step;
  ReplicatedStep* replicas = nullptr;  ///< Instead of `step`, where devices or shards are several.
};

/// The training loop: epochs of steps, an evaluation after each, files and reports as it goes.
class Trainer {
 public:
  Trainer(const Options& options, const DataSets& data, TrainingParts parts, RunRecord record,
          RunState state);

  enum class Outcome { kDone, kInterrupted };
  /// Errors: a loss or weight that is not finite, naming step and layer; a file that cannot be
  /// written. The checkpoint that was there then stands.
  Outcome run();

 private:
  void train_epoch();
  void take_step(const Batch& batch);
  void note_skip();
  void finish_epoch(const Evaluation& evaluation);
  void save();
  Outcome stop();

  const Options& options_;
  TrainingParts parts_;
  RunRecord record_;
  RunState state_;
  Loader train_loader_;
  Loader test_loader_;
  Progress progress_;
};

}  // namespace heddle::train_cifar
