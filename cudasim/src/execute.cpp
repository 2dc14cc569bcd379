#include <algorithm>
#include <atomic>
#include <bit>
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "launch.h"
#include "observer.h"
#ifdef CUDASIM_WITH_CHECKS
#include "symbols.h"
#endif
#include "team.h"
#include "worker.h"

namespace cudasim {

namespace {

std::mutex settings_mutex;
constinit thread_local BlockRange thread_range;
std::mutex failure_mutex;

std::string& last_failure() {
  static std::string& text = *new std::string;  // never destroyed: kernels may fail late
  return text;
}

ExecutionSettings& settings() {
  static ExecutionSettings shared = [] {
    ExecutionSettings first;
    if (const char* text = std::getenv("CUDASIM_THREADS")) {
      first.threads = std::max(1, std::atoi(text));
    }
    return first;
  }();
  return shared;
}

/// A seeded permutation of 0..n-1: a Feistel network over the next even power of two, walked until
/// it falls inside.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed)
      : n_(n), seed_(seed), half_bits_((static_cast<int>(std::bit_width(n)) + 1) / 2) {}

  uint64_t operator()(uint64_t value) const {
    do {
      value = round_trip(value);
    } while (value >= n_);
    return value;
  }

 private:
  uint64_t round_trip(uint64_t value) const {
    const uint64_t half = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & half;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t mixed = (right + seed_ + round) * 0x9e3779b97f4a7c15U;
      mixed = (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9U;
      const uint64_t next = left ^ ((mixed >> 32) & half);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  uint64_t n_;
  uint64_t seed_;
  int half_bits_;
};

/// Kernels keep subnormals and round to nearest, whatever the calling thread has set.
class DeviceArithmetic {
 public:
  DeviceArithmetic() {
    std::fegetenv(&outer_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DeviceArithmetic() { std::fesetenv(&outer_); }
  DeviceArithmetic(const DeviceArithmetic&) = delete;
  DeviceArithmetic& operator=(const DeviceArithmetic&) = delete;

 private:
  std::fenv_t outer_;
};

int64_t block_count(const Launch& launch) {
  return static_cast<int64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
}

LaunchResult run_blocks(const Launch& launch, const ExecutionSettings& how) {
  const int64_t first = std::min(launch.range.first, block_count(launch));
  const int64_t left = block_count(launch) - first;
  const int64_t count = launch.range.count < 0 ? left : std::min(launch.range.count, left);
  const Permutation shuffled(static_cast<uint64_t>(std::max<int64_t>(count, 1)), how.seed);
  std::atomic<int64_t> begun{0};
  std::mutex mutex;
  LaunchResult result;
  const auto work = [&] {
    const DeviceArithmetic arithmetic;
    for (int64_t i = begun++; i < count; i = begun++) {
      int64_t block = i;
      if (how.order == BlockOrder::kReversed) block = count - 1 - i;
      if (how.order == BlockOrder::kShuffled) {
        block = static_cast<int64_t>(shuffled(static_cast<uint64_t>(i)));
      }
      Worker& worker = Worker::here();
      if (worker.run(launch, first + block)) continue;
      begun = count;
      const std::lock_guard lock(mutex);
      if (!result.failed) result = {true, worker.take_message(), worker.told()};
    }
  };
  const int64_t threads = std::min<int64_t>(how.threads, count);
  if (threads > 1) {
    Team::shared().run(static_cast<int>(threads), work);
  } else {
    work();
  }
  return result;
}

std::string name_of(const Launch& launch) {
  if (launch.name != nullptr) return launch.name;
#ifdef CUDASIM_WITH_CHECKS
  return kernel_name(launch.function);
#else
  char text[32];
  std::snprintf(text, sizeof text, "%p", launch.function);
  return text;
#endif
}

void note_failure(const Launch& launch, LaunchResult& result) {
  result.message = "kernel " + name_of(launch) + ": " + result.message;
  {
    const std::lock_guard lock(failure_mutex);
    last_failure() = result.message;
  }
  if (execution_settings().print_failures && !result.told) {
    std::fprintf(stderr, "cudasim: launch failed: %s\n", result.message.c_str());
  }
}

}  // namespace

std::string last_launch_failure() {
  const std::lock_guard lock(failure_mutex);
  return last_failure();
}

ExecutionSettings execution_settings() {
  const std::lock_guard lock(settings_mutex);
  return settings();
}

void set_execution_settings(const ExecutionSettings& changed) {
  const std::lock_guard lock(settings_mutex);
  settings() = changed;
  settings().threads = std::max(1, changed.threads);
}

BlockRange current_block_range() { return thread_range; }

BlockRangeScope::BlockRangeScope(int64_t first, int64_t count) : outer_(thread_range) {
  thread_range = {first, count};
}

BlockRangeScope::~BlockRangeScope() { thread_range = outer_; }

LaunchResult execute(const Launch& launch) {
  observer::on_launch_begin(launch);
  LaunchResult result;
  if (launch.shared_bytes > launch.shared_limit) {
    result = {true, "dynamic shared memory of " + std::to_string(launch.shared_bytes) +
                        " bytes, the limit is " + std::to_string(launch.shared_limit)};
  } else {
    result = run_blocks(launch, execution_settings());
  }
  if (result.failed) note_failure(launch, result);
  observer::on_launch_end(launch, result);
  return result;
}

}  // namespace cudasim
