#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cudasim/execution.h"
#include "cudasim/kernel_call.h"
#include "cudasim/types.h"

namespace cudasim {

class KernelAccesses;

/// One launch of a kernel, its configuration already found valid.
struct Launch {
  const void* function = nullptr;  ///< address of the kernel
  const char* name = nullptr;      ///< as the caller named it, or null
  int device = 0;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;                 ///< dynamic
  size_t shared_limit = size_t{48} << 10;  ///< of dynamic and static shared memory together
  KernelCall kernel;
  BlockRange range;
  uint64_t id = 0;                     ///< counts launches, for reports
  KernelAccesses* accesses = nullptr;  ///< where to note what it touches; null: nowhere
};

struct LaunchResult {
  bool failed = false;
  std::string message;  ///< why it failed
  bool told = false;    ///< a finding has said so
};

/// Runs all blocks of the launch (those of its range) and returns when they are done. Never throws
/// what a kernel threw: that is a failed launch. May be called by several host threads at once.
LaunchResult execute(const Launch& launch);

}  // namespace cudasim
