#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "heddle/core/phase.h"
#include "heddle/nn/amp/grad_scaler.h"

namespace heddle::train_cifar {

/// Where a run stands, exactly: the part of a checkpoint that is neither a tensor nor a setting.
struct RunState {
  int64_t epochs_done = 0;
  int64_t batches_done = 0;  ///< Of the epoch that is running; all of them: its evaluation is left.
  int64_t step = 0;          ///< Optimizer steps of the whole run.
  // Sums over the running epoch
  double loss_sum = 0.0;  ///< Weighted by samples.
  int64_t n_samples = 0;
  int64_t n_correct = 0;
  double data_seconds = 0.0;
  double step_seconds = 0.0;
  PhaseSeconds phases;

  void begin_next_epoch();
};

nlohmann::ordered_json to_json(const RunState& state);
/// Errors: Error where a value is missing, of another type or negative.
RunState run_state_from_json(const nlohmann::ordered_json& json);

nlohmann::ordered_json to_json(const GradScalerState& state);
/// Errors: as run_state_from_json.
GradScalerState scaler_state_from_json(const nlohmann::ordered_json& json);

}  // namespace heddle::train_cifar
