#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "heddle/core/phase.h"

namespace heddle::train_cifar {

/// Where an epoch's training time went. Units: seconds.
struct StepTimes {
  PhaseSeconds phases;
  double other = 0.0;  ///< What no phase covers: the host's own work, metrics, checkpoints.

  double total() const { return phases.sum() + other; }
  double share(Phase phase) const;  ///< Of the total; 0 where that is 0.
};

/// The phases that a device measured, and the wall time they lie in, as one account: waiting for
/// data counts only as far as the device had nothing else to do, and the parts add up to the wall
/// time.
StepTimes account_for(const PhaseSeconds& measured, double wall_seconds);

/// What held an epoch back most, in one line with what to do about it. The first that holds:
///   input-bound    waiting for data is at least 10%
///   copy-bound     copies that nothing hides are at least 10%
///   reduce-bound   exchanging gradients that nothing hides is at least 15%
///   host-bound     on a device: at least 25% is none of the phases
///   compute-bound  otherwise
/// "input-bound 31%: raise --workers above 2 (compute 60%, update 8%)": the line below an epoch's
/// row, at most 78 columns; parts below 1%, and those that do not fit, are left out. `workers` is
/// the number of loader threads; where they are `tuned`, it is no use to ask for more:
/// "input-bound 31%: the loader's 2 workers do not keep up (...)".
std::string verdict(const StepTimes& times, Device device, int workers, bool tuned = false);

nlohmann::ordered_json to_json(const StepTimes& times);

}  // namespace heddle::train_cifar
