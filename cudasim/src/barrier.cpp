#include <chrono>
#include <stdexcept>

#include "cudasim/block.h"
#include "observer.h"
#include "worker.h"

namespace cudasim {

void Worker::barrier(int predicate, const void* pc) {
  Block& block = block_;
  Lane& lane = *current_lane;
  lane.wait = Wait::kBlockBarrier;
  lane.wait_pc = pc;
  if (block.n_arrived++ == 0) {
    block.barrier_pc = pc;
  } else if (pc != block.barrier_pc) {
    block.barrier_mixed = true;
  }
  block.barrier_count += predicate != 0;
  block.barrier_and &= predicate != 0;
  block.barrier_or |= predicate != 0;
  if (block.n_arrived == block.n_threads - block.n_exited) release_barrier();
  suspend();
}

void Worker::release_barrier() {
  Block& block = block_;
  if (block.n_exited > 0 && !divergence_told_) {
    divergence_told_ = true;
    observer::on_divergent_barrier(block, false);
  }
  observer::on_block_barrier(block);
  ++block.n_barriers;
  block.result_count = block.barrier_count;
  block.result_and = block.barrier_and;
  block.result_or = block.barrier_or;
  block.barrier_count = 0;
  block.barrier_and = 1;
  block.barrier_or = 0;
  block.n_arrived = 0;
  block.barrier_mixed = false;
  for (int i = 0; i < block.n_threads; ++i) block.lanes[i].wait = Wait::kNone;
  for (int w = 0; w < block.n_warps; ++w) {
    make_ready(w, block.warps[w].exists & ~block.warps[w].exited);
  }
  warp_ = 0;
}

namespace {

Lane& lane_here() {
  if (current_lane == nullptr) {
    throw std::logic_error("cudasim: a call that only kernels can make, made on the host");
  }
  return *current_lane;
}

}  // namespace

uint3 thread_index() noexcept { return lane_here().thread; }
uint3 block_index() noexcept { return lane_here().block->index; }
uint3 block_size() noexcept { return lane_here().block->launch->block; }
uint3 grid_size() noexcept { return lane_here().block->launch->grid; }

int lane_index() { return lane_here().lane; }
bool in_kernel() { return current_lane != nullptr; }

void fail_launch(const char* message) {
  lane_here();
  end_launch(message);
}

}  // namespace cudasim

namespace {

const cudasim::Block& wait_for_block(int predicate, const void* pc) {
  const cudasim::Lane& lane = cudasim::lane_here();
  lane.block->engine->barrier(predicate, pc);
  return *lane.block;
}

}  // namespace

void __syncthreads() { wait_for_block(1, __builtin_return_address(0)); }

int __syncthreads_count(int predicate) {
  return wait_for_block(predicate, __builtin_return_address(0)).result_count;
}

int __syncthreads_and(int predicate) {
  return wait_for_block(predicate, __builtin_return_address(0)).result_and;
}

int __syncthreads_or(int predicate) {
  return wait_for_block(predicate, __builtin_return_address(0)).result_or;
}

void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  cudasim::observer::on_fence(*cudasim::lane_here().block);
}
void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __threadfence_system() { __threadfence(); }

void __nanosleep(unsigned int) { cudasim::lane_here().block->engine->yield(); }

void __trap() { cudasim::fail_launch("the kernel called __trap()"); }

unsigned long long __globaltimer() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch() /
                                         std::chrono::nanoseconds(1));
}

long long clock64() { return static_cast<long long>(__globaltimer()); }
