#pragma once

#include <cstdint>
#include <string>

// How blocks are run: for tests and for whoever wants more threads. None of it exists in CUDA.
namespace cudasim {

enum class BlockOrder { kSequence, kReversed, kShuffled };

struct ExecutionSettings {
  /// Host threads that run blocks of one launch side by side (a block never leaves its thread).
  /// At first the environment's CUDASIM_THREADS, else 1: the order of atomics is then repeatable.
  int threads = 1;
  BlockOrder order = BlockOrder::kSequence;
  uint64_t seed = 0;  ///< of kShuffled
  /// Whether a launch that fails says why on standard error; CUDA has only cudaErrorLaunchFailure.
  bool print_failures = true;
};

ExecutionSettings execution_settings();
void set_execution_settings(const ExecutionSettings& settings);

/// Why the last launch that failed did: "kernel 0x...: block (0, 0, 0): the kernel threw: ...".
std::string last_launch_failure();

/// The part of a grid that is run, counted as x + grid.x * (y + grid.y * z).
struct BlockRange {
  int64_t first = 0;
  int64_t count = -1;  ///< -1: all that follow
};

/// While it lives, launches of this host thread run these blocks only: how a kernel is tested at
/// sizes whose other blocks would take too long.
class BlockRangeScope {
 public:
  BlockRangeScope(int64_t first, int64_t count);
  ~BlockRangeScope();
  BlockRangeScope(const BlockRangeScope&) = delete;
  BlockRangeScope& operator=(const BlockRangeScope&) = delete;

 private:
  BlockRange outer_;
};

BlockRange current_block_range();

}  // namespace cudasim
