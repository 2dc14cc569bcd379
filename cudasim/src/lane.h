#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cudasim/helpers.h"
#include "cudasim/types.h"
#include "launch.h"

namespace cudasim {

struct Fiber;
class Worker;
struct Block;
struct Exchange;

/// One pending asynchronous copy of a lane.
struct AsyncCopy {
  void* shared;
  const void* global;
  size_t bytes;
  size_t source_bytes;
  int group;
  const void* pc;
};

enum class Wait : uint8_t { kNone, kBlockBarrier, kWarp };

/// One thread of the block that runs.
struct alignas(64) Lane {
  uint3 thread{};
  int index = 0;  ///< in its block
  int warp = 0;
  int lane = 0;  ///< in its warp
  Block* block = nullptr;
  // The fiber's stack: accesses to it are the kernel's own variables.
  const char* stack_low = nullptr;
  const char* stack_high = nullptr;

  // The engine's own.
  Wait wait = Wait::kNone;
  bool exited = false;
  unsigned wait_mask = 0;         ///< of kWarp
  const void* wait_pc = nullptr;  ///< where the barrier or collective was called
  Fiber* fiber = nullptr;         ///< null until it first runs
  Exchange* exchange = nullptr;   ///< its last collective's
  int async_group = 0;            ///< number of the group that is open
  std::vector<AsyncCopy> async_copies;
};

/// A variable in a block's shared memory, with red zones before and after it.
struct SharedVariable {
  const SharedSite* site;  ///< null: the dynamic shared memory
  char* address;
  size_t bytes;
};

/// Lanes of a warp that come together in one collective.
struct Exchange {
  unsigned mask = 0;
  unsigned arrived = 0;
  unsigned ballot = 0;
  int kind = 0;
  size_t bytes = 0;  ///< of a row
  int readers = 0;   ///< lanes that may still read the rows
  std::vector<char> rows;
};

struct Warp {
  unsigned exists = 0;
  unsigned exited = 0;
  unsigned ready = 0;     ///< lanes that can run
  unsigned sleeping = 0;  ///< lanes that run when no other can
  std::vector<Exchange*> forming;
};

struct Block {
  const Launch* launch = nullptr;
  uint3 index{};
  int64_t linear = 0;
  int n_threads = 0;
  int n_exited = 0;
  int n_warps = 0;
  Lane* lanes = nullptr;  ///< n_threads of them, in order of their index
  Warp warps[32];
  uint32_t ready_warps = 0;
  int worker = 0;            ///< number of the host thread that runs it
  Worker* engine = nullptr;  ///< that host thread's

  // The barrier that forms.
  int n_arrived = 0;
  const void* barrier_pc = nullptr;
  bool barrier_mixed = false;  ///< lanes came from different calls (see Lane::wait_pc)
  int barrier_count = 0, barrier_and = 1, barrier_or = 0;
  int result_count = 0, result_and = 0, result_or = 0;
  uint64_t n_barriers = 0;  ///< done so far

  // Shared memory: [shared_low, shared_high) is the arena with all red zones.
  char* shared_low = nullptr;
  char* shared_high = nullptr;
  size_t shared_used = 0;  ///< bytes counted against the limit
  char* shared_next = nullptr;
  std::vector<SharedVariable> variables;  ///< dynamic first

  void* observer_data = nullptr;  ///< the checkers' own
};

/// The thread whose kernel code runs now on this host thread; null outside kernels.
extern constinit thread_local Lane* current_lane;

/// Ends the launch from inside a kernel; does not return. `told`: a finding has said why.
[[noreturn]] void end_launch(const char* message, bool told = false);

}  // namespace cudasim
