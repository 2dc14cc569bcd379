#pragma once

#include <string>
#include <vector>

#include "heddle/apps/support/flags.h"
#include "heddle/apps/train_cifar/data_sets.h"
#include "heddle/apps/train_cifar/evaluate.h"
#include "heddle/apps/train_cifar/options.h"
#include "heddle/apps/train_cifar/step_times.h"

namespace heddle::train_cifar {

/// What an epoch came to.
struct EpochSummary {
  int64_t epoch = 0;  ///< From 1.
  int64_t n_epochs = 0;
  int64_t step = 0;  ///< Steps of the whole run so far.
  double lr = 0.0;
  double train_loss = 0.0;
  double train_accuracy = 0.0;
  double test_loss = 0.0;
  double test_accuracy = 0.0;
  double data_seconds = 0.0;  ///< Waiting for the loader.
  double step_seconds = 0.0;
  double eval_seconds = 0.0;
  LoaderSize loader;    ///< What the epoch ended with.
  StepTimes split;      ///< Of data_seconds and step_seconds together.
  std::string verdict;  ///< What held it back.
};

/// Prints the effective settings: data, flags, machine, providers.
void print_settings(const apps::FlagSet& flags, const Options& options, const DataSets& data,
                    int64_t n_parameters);
void print_table_head();
void print_table_row(const EpochSummary& summary);
void print_classes(const Evaluation& evaluation, const std::vector<std::string>& names);
void print_devices();

/// The metrics.jsonl line of an epoch.
nlohmann::ordered_json to_json(const EpochSummary& summary);

}  // namespace heddle::train_cifar
