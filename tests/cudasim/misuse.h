#pragma once

#include <string>
#include <utility>

#include "heddle/tests/cudasim/machine.h"
#include "heddle/tests/cudasim/support.h"

#include <cudasim/execution.h>

namespace heddle::test {

/// Launches a kernel that must fail, and returns what cudasim says of it. The machine is new after.
template <class... Parameters, class... Arguments>
std::string failure_of(void (*kernel)(Parameters...), const Config& config,
                       Arguments&&... arguments) {
  cudasim::ExecutionSettings settings = cudasim::execution_settings();
  settings.print_failures = false;
  cudasim::set_execution_settings(settings);
  const MachineScope machine;
  REQUIRE(try_run(kernel, config, std::forward<Arguments>(arguments)...) == cudaErrorLaunchFailure);
  REQUIRE(cudaGetLastError() == cudaErrorLaunchFailure);
  settings.print_failures = true;
  cudasim::set_execution_settings(settings);
  return cudasim::last_launch_failure();
}

}  // namespace heddle::test
