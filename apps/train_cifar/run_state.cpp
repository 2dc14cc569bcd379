#include "heddle/apps/train_cifar/run_state.h"

#include "heddle/core/error.h"

namespace heddle::train_cifar {
namespace {

template <class T>
T value_of(const nlohmann::ordered_json& json, const char* key) {
  const auto found = json.find(key);
  const bool right = found != json.end() && found->is_number() &&
                     (std::is_floating_point_v<T> || found->is_number_integer());
  if (!right) fail("checkpoint: state.{} is missing or no number", key);
  const T value = found->get<T>();
  if (value < 0) fail("checkpoint: state.{} is {}, expected 0 or more", key, found->dump());
  return value;
}

/// Checkpoints of before there were phases have none.
PhaseSeconds phases_from_json(const nlohmann::ordered_json& json) {
  PhaseSeconds phases;
  const auto found = json.find("phases");
  if (found == json.end() || !found->is_object()) return phases;
  for (int i = 0; i < kPhases; ++i) {
    const Phase phase{static_cast<uint8_t>(i)};
    phases[phase] = value_of<double>(*found, name_of(phase));
  }
  return phases;
}

nlohmann::ordered_json to_json(const PhaseSeconds& phases) {
  nlohmann::ordered_json json;
  for (int i = 0; i < kPhases; ++i) {
    const Phase phase{static_cast<uint8_t>(i)};
    json[name_of(phase)] = phases[phase];
  }
  return json;
}

}  // namespace

void RunState::begin_next_epoch() { *this = {.epochs_done = epochs_done + 1, .step = step}; }

nlohmann::ordered_json to_json(const RunState& state) {
  return {{"epochs_done", state.epochs_done},
          {"batches_done", state.batches_done},
          {"step", state.step},
          {"loss_sum", state.loss_sum},
          {"n_samples", state.n_samples},
          {"n_correct", state.n_correct},
          {"data_seconds", state.data_seconds},
          {"step_seconds", state.step_seconds},
          {"phases", to_json(state.phases)}};
}

RunState run_state_from_json(const nlohmann::ordered_json& json) {
  if (!json.is_object()) fail("checkpoint: has no state of a run");
  return {.epochs_done = value_of<int64_t>(json, "epochs_done"),
          .batches_done = value_of<int64_t>(json, "batches_done"),
          .step = value_of<int64_t>(json, "step"),
          .loss_sum = value_of<double>(json, "loss_sum"),
          .n_samples = value_of<int64_t>(json, "n_samples"),
          .n_correct = value_of<int64_t>(json, "n_correct"),
          .data_seconds = value_of<double>(json, "data_seconds"),
          .step_seconds = value_of<double>(json, "step_seconds"),
          .phases = phases_from_json(json)};
}

nlohmann::ordered_json to_json(const GradScalerState& state) {
  return {{"scale", state.scale}, {"growth_tracker", state.growth_tracker}, {"skips", state.skips}};
}

GradScalerState scaler_state_from_json(const nlohmann::ordered_json& json) {
  if (!json.is_object()) fail("checkpoint: has no state of the loss scaler");
  return {.scale = value_of<double>(json, "scale"),
          .growth_tracker = value_of<int64_t>(json, "growth_tracker"),
          .skips = value_of<int64_t>(json, "skips")};
}

}  // namespace heddle::train_cifar
