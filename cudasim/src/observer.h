#pragma once

#include "lane.h"

// What the engine tells the checkers and the profiler. Each is called on the host thread that runs
// the block; those with a lane while current_lane is that lane.
namespace cudasim::observer {

void on_launch_begin(const Launch& launch);
void on_launch_end(const Launch& launch, const LaunchResult& result);
void on_block_begin(Block& block);
void on_block_end(Block& block);

/// A variable of shared memory takes its place in this block, unwritten.
void on_shared_declared(Block& block, const SharedVariable& variable);

/// All threads have come to a barrier. Each lane's wait_pc says where; block.barrier_mixed is set
/// where they are not all the same.
void on_block_barrier(Block& block);

/// The lanes of `mask` have come to __syncwarp.
void on_warp_sync(Block& block, int warp, unsigned mask);

/// A thread calls __threadfence.
void on_fence(Block& block);

/// An access that a helper or an atomic reports. `pc` lies in the caller.
void on_access(Lane& lane, const void* address, size_t bytes, Access kind, const void* pc);

/// Some threads wait at a barrier (Lane::wait is kBlockBarrier) that others never reach: those have
/// exited or wait in a warp collective. `stuck`: nothing can go on and the launch ends; otherwise
/// the others have exited and the barrier is passed without them, as a device does.
void on_divergent_barrier(Block& block, bool stuck);

}  // namespace cudasim::observer
