#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/apps/parallel_lab/faults.h"
#include "heddle/apps/parallel_lab/measured.h"
#include "heddle/parallel/exchange_plan.h"

namespace heddle::lab {

/// Steps of training that really happen.
struct RunSetup {
  std::string model;
  std::vector<Device> devices;
  int64_t batch_size = 64;
  std::vector<int64_t> split;  ///< Of the batch, by replica; empty: even.
  int64_t steps = 3;
  ExchangeKind kind = ExchangeKind::kDirect;
  int64_t bucket_bytes = 1 << 20;
  Links links{1};  ///< Virtual devices get the peer access that these have.
  Faults faults;
};

struct StepRecord {
  double loss = 0;
  std::vector<uint64_t> gradients, weights;  ///< Fingerprints, by replica.
};

/// What a replica that was lost left behind.
struct Loss {
  std::string error;    ///< It names the device.
  double seconds = 0;   ///< From the step's beginning to when the error had come home.
  int lanes_ended = 0;  ///< Threads of replicas that answer afterwards.
  bool weights_unchanged = false;
  double loss_of_repeat = 0;  ///< Of the same step again, without the fault.
};

struct RunOutcome {
  std::vector<StepRecord> steps;
  std::vector<int64_t> images;  ///< Of each replica in a step.
  int64_t exchanges = 0;        ///< In all steps that were completed, as all that follows.
  std::vector<std::vector<int64_t>> bytes;    ///< (from, to), by the plans that were executed
  double least_bytes = 0;                     ///< That each replica must send, and take.
  std::vector<std::vector<int64_t>> counted;  ///< (from, to), the host last: by a virtual machine
  int64_t output_bytes = 0;  ///< Part of `counted`: outputs, on their way to replica 0.
  double slept_seconds = 0;  ///< That injected faults have cost.
  std::optional<Loss> lost;
  std::optional<bool> same_as_without_faults;  ///< Whether weights have the same bits.
  std::optional<Timeline> timeline;            ///< Of the last step, where times mean something.
};

/// Trains the model on generated images, and with faults once more without them from the same
/// beginning, to compare.
/// Errors: replicas that do not have the same bits; those of DataParallel.
RunOutcome run_steps(const RunSetup& setup);

}  // namespace heddle::lab
