#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/apps/parallel_lab/simulate.h"
#include "heddle/core/device.h"

namespace heddle::lab {

/// What was measured of one step.
struct Timeline {
  std::vector<Span> spans;
  double seconds = 0;
  std::string clock;  ///< Whose times these are.
};

/// Names the threads of a DataParallel's replicas so that trace_step finds them.
std::string replica_row(int replica);

/// Runs `step` under the tracer, and makes a timeline of what the replicas' threads (on the CPU) or
/// the devices' streams did meanwhile.
Timeline trace_step(const std::vector<Device>& devices, const std::function<void()>& step);

}  // namespace heddle::lab
