// Which blocks run, in what order, on how many host threads.
#include <algorithm>
#include <numeric>

#include "heddle/tests/cudasim/support.h"

#include <cudasim/execution.h>

namespace heddle::test {
namespace {

/// Puts the settings back.
class SettingsScope {
 public:
  explicit SettingsScope(const cudasim::ExecutionSettings& settings) {
    cudasim::set_execution_settings(settings);
  }
  ~SettingsScope() { cudasim::set_execution_settings(outer_); }
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

 private:
  cudasim::ExecutionSettings outer_ = cudasim::execution_settings();
};

__global__ void order_kernel(int* turn, int* order) {
  order[atomicAdd(turn, 1)] =
      static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}

std::vector<int> order_of_blocks(const cudasim::ExecutionSettings& settings) {
  const SettingsScope scope(settings);
  DeviceArray<int> turn(1);
  DeviceArray<int> order(5 * 3 * 7);
  run(order_kernel, {.grid = {5, 3, 7}}, turn.data(), order.data());
  return order.values();
}

TEST_CASE("blocks run in sequence, reversed or shuffled by a seed") {
  std::vector<int> sequence(105);
  std::iota(sequence.begin(), sequence.end(), 0);
  REQUIRE(order_of_blocks({}) == sequence);
  std::vector<int> reversed(sequence.rbegin(), sequence.rend());
  REQUIRE(order_of_blocks({.order = cudasim::BlockOrder::kReversed}) == reversed);

  auto first = order_of_blocks({.order = cudasim::BlockOrder::kShuffled, .seed = 1});
  REQUIRE(first == order_of_blocks({.order = cudasim::BlockOrder::kShuffled, .seed = 1}));
  REQUIRE(first != order_of_blocks({.order = cudasim::BlockOrder::kShuffled, .seed = 2}));
  REQUIRE(first != sequence);
  std::sort(first.begin(), first.end());
  REQUIRE(first == sequence);
}

__global__ void where_kernel(int* count, int* wrong) {
  const void* before = cudasim::dynamic_shared();
  __syncthreads();
  // The block's arena belongs to its host thread.
  if (cudasim::dynamic_shared() != before) atomicAdd(wrong, 1);
  for (int i = 0; i < 50; ++i) __syncthreads();
  if (cudasim::dynamic_shared() != before) atomicAdd(wrong, 1);
  atomicAdd(count + blockIdx.x, 1);
}

TEST_CASE("several host threads run each block once, and a block never leaves its thread") {
  const SettingsScope scope({.threads = 4});
  for (int repeat = 0; repeat < 20; ++repeat) {
    DeviceArray<int> count(64);
    DeviceArray<int> wrong(1);
    run(where_kernel, {.grid = 64, .block = 96}, count.data(), wrong.data());
    for (const int value : count.values()) REQUIRE(value == 96);
    REQUIRE(wrong.values()[0] == 0);
  }
}

__global__ void mark_kernel(unsigned long long first, unsigned char* marks) {
  marks[blockIdx.x + static_cast<unsigned long long>(gridDim.x) * blockIdx.y - first] = 1;
}

TEST_CASE("a part of the grid can be launched alone") {
  DeviceArray<unsigned char> marks(8);
  const unsigned width = 2147483647;
  const unsigned long long all = static_cast<unsigned long long>(width) * 3;
  {
    const cudasim::BlockRangeScope range(static_cast<int64_t>(all - 3), 2);
    run(mark_kernel, {.grid = {width, 3}}, all - 8, marks.data());
  }
  REQUIRE(marks.values() == std::vector<unsigned char>{0, 0, 0, 0, 0, 1, 1, 0});
  {
    const cudasim::BlockRangeScope range(static_cast<int64_t>(all - 1), 100);
    run(mark_kernel, {.grid = {width, 3}}, all - 8, marks.data());
  }
  REQUIRE(marks.values() == std::vector<unsigned char>{0, 0, 0, 0, 0, 1, 1, 1});
}

}  // namespace
}  // namespace heddle::test
