#include "worker.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <new>
#include <utility>

#include "observer.h"

namespace cudasim {

constinit thread_local Lane* current_lane = nullptr;

namespace {

// More than any card has, with its red zones.
constexpr size_t kArenaBytes = size_t{1} << 20;

}  // namespace

Worker& Worker::here() {
  static std::atomic<int> n_workers{0};
  thread_local Worker worker(n_workers++);
  return worker;
}

Worker::Worker(int number) : fibers_(&Worker::lane_main) {
  void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  arena_ = static_cast<char*>(memory);
  block_.shared_low = arena_;
  block_.shared_high = arena_ + kArenaBytes;
  block_.worker = number;
  block_.engine = this;
}

Worker::~Worker() { munmap(arena_, kArenaBytes); }

void Worker::prepare(const Launch& launch, int64_t linear) {
  Block& block = block_;
  block.launch = &launch;
  const int64_t row = linear / launch.grid.x;
  block.index = {static_cast<unsigned>(linear % launch.grid.x),
                 static_cast<unsigned>(row % launch.grid.y),
                 static_cast<unsigned>(row / launch.grid.y)};
  block.linear = linear;
  block.n_threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  block.n_exited = 0;
  block.n_arrived = 0;
  block.barrier_mixed = false;
  block.barrier_count = 0;
  block.barrier_and = 1;
  block.barrier_or = 0;
  block.n_barriers = 0;
  prepare_lanes(launch.block);
  prepare_warps();
  divergence_told_ = false;
  failed_ = false;
  stuck_ = false;
  told_ = false;
}

void Worker::prepare_lanes(dim3 size) {
  if (lanes_.size() < static_cast<size_t>(block_.n_threads)) {
    lanes_.resize(static_cast<size_t>(block_.n_threads));
  }
  block_.lanes = lanes_.data();
  uint3 thread{0, 0, 0};
  for (int i = 0; i < block_.n_threads; ++i) {
    Lane& lane = lanes_[static_cast<size_t>(i)];
    lane.thread = thread;
    lane.index = i;
    lane.warp = i / 32;
    lane.lane = i % 32;
    lane.block = &block_;
    lane.exited = false;
    lane.wait = Wait::kNone;
    lane.fiber = nullptr;
    lane.exchange = nullptr;
    lane.async_group = 0;
    lane.async_copies.clear();
    if (++thread.x < size.x) continue;
    thread.x = 0;
    if (++thread.y < size.y) continue;
    thread.y = 0;
    ++thread.z;
  }
}

void Worker::prepare_warps() {
  block_.n_warps = (block_.n_threads + 31) / 32;
  block_.ready_warps = 0;
  for (int w = 0; w < block_.n_warps; ++w) {
    const int n_lanes = std::min(32, block_.n_threads - 32 * w);
    Warp& warp = block_.warps[w];
    warp.exists = n_lanes == 32 ? ~0U : (1U << n_lanes) - 1;
    warp.exited = 0;
    warp.ready = 0;
    warp.sleeping = 0;
    warp.forming.clear();
    make_ready(w, warp.exists);
  }
  warp_ = 0;
}

bool Worker::run(const Launch& launch, int64_t linear) {
  prepare(launch, linear);
  observer::on_block_begin(block_);
  prepare_shared(launch);
  leave(fibers_.host(), *next());
  current_lane = nullptr;
  if (stuck_) {
    failed_ = true;
    observer::on_divergent_barrier(block_, true);
    message_ = stuck_message();
  }
  if (failed_) {
    const uint3 at = block_.index;
    message_ = "block (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " +
               std::to_string(at.z) + "): " + message_;
    clean_up();
  }
  observer::on_block_end(block_);
  return !failed_;
}

/// After a failure: what waits on the fibers is given up.
void Worker::clean_up() {
  for (int i = 0; i < block_.n_threads; ++i) {
    Lane& lane = lanes_[static_cast<size_t>(i)];
    if (lane.fiber != nullptr) fibers_.abandon(lane.fiber);
    lane.fiber = nullptr;
  }
  free_exchanges_.clear();
  for (const auto& exchange : exchanges_) free_exchanges_.push_back(exchange.get());
}

void Worker::yield() {
  const Lane& lane = *current_lane;
  block_.warps[lane.warp].sleeping |= 1U << lane.lane;
  suspend();
}

bool Worker::wake_sleepers() {
  for (int w = 0; w < block_.n_warps; ++w) {
    make_ready(w, std::exchange(block_.warps[w].sleeping, 0U));
  }
  return block_.ready_warps != 0;
}

void Worker::to_host(Fiber& from) {
  fibers_.switch_to(from, fibers_.host());
  std::terminate();  // an abandoned fiber is not switched to
}

void Worker::fail(std::string message, bool told) {
  failed_ = true;
  told_ = told;
  message_ = std::move(message);
  to_host(*current_lane->fiber);
}

void Worker::run_lane() {
  const KernelCall& kernel = block_.launch->kernel;
  bool thrown = false;
  std::string text;
  try {
    kernel.invoke(kernel.arguments.get());
  } catch (const std::exception& error) {
    thrown = true;
    text = error.what();
  } catch (...) {
    thrown = true;
    text = "an exception of unknown type";
  }
  if (thrown) fail("the kernel threw: " + text);
}

/// Where each fiber begins: runs threads until none is ready, then parks for the next block.
void Worker::lane_main() {
  Worker& worker = here();
  for (;;) {
    worker.run_lane();
    Lane& lane = *current_lane;
    Fiber* fiber = lane.fiber;
    worker.finish_lane(lane);
    Lane* to = worker.next();
    if (to != nullptr && to->fiber == nullptr) {
      worker.bind(*to, fiber);
      current_lane = to;
      continue;
    }
    worker.fibers_.give(fiber);
    if (to != nullptr) {
      current_lane = to;
      worker.fibers_.switch_to(*fiber, *to->fiber);
    } else {
      worker.stuck_ = worker.block_.n_exited != worker.block_.n_threads;
      worker.fibers_.switch_to(*fiber, worker.fibers_.host());
    }
  }
}

void Worker::finish_lane(Lane& lane) {
  Warp& warp = block_.warps[lane.warp];
  const unsigned bit = 1U << lane.lane;
  for (const Exchange* exchange : warp.forming) {
    if (exchange->mask & bit) {
      fail("thread " + std::to_string(lane.index) +
           " has ended, but a warp collective that others of its warp wait in names its lane");
    }
  }
  drop_exchange(lane);
  lane.exited = true;
  lane.fiber = nullptr;
  warp.exited |= bit;
  ++block_.n_exited;
  if (block_.n_arrived > 0 && block_.n_arrived == block_.n_threads - block_.n_exited) {
    release_barrier();
  }
}

std::string Worker::stuck_message() const {
  int n_barrier = 0;
  int n_warp = 0;
  for (int i = 0; i < block_.n_threads; ++i) {
    n_barrier += block_.lanes[i].wait == Wait::kBlockBarrier;
    n_warp += block_.lanes[i].wait == Wait::kWarp;
  }
  return "the block cannot go on: of " + std::to_string(block_.n_threads) + " threads, " +
         std::to_string(n_barrier) + " wait at a barrier, " + std::to_string(n_warp) +
         " in a warp collective for lanes that do not come, " + std::to_string(block_.n_exited) +
         " have ended";
}

void end_launch(const char* message, bool told) {
  current_lane->block->engine->fail(message, told);
}

}  // namespace cudasim
