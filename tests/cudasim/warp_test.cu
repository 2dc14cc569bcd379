// Warp collectives: every width, every mask, and lanes that come late.
#include "heddle/tests/cudasim/support.h"

namespace heddle::test {
namespace {

constexpr unsigned kAll = 0xffffffffU;

__global__ void shuffle_kernel(int mode, int operand, int width, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = 100 + lane;
  int result = -1;
  if (mode == 0) result = __shfl_sync(kAll, value, operand, width);
  if (mode == 1) result = __shfl_up_sync(kAll, value, static_cast<unsigned>(operand), width);
  if (mode == 2) result = __shfl_down_sync(kAll, value, static_cast<unsigned>(operand), width);
  if (mode == 3) result = __shfl_xor_sync(kAll, value, operand, width);
  out[lane] = result;
}

/// As the CUDA guide words it: groups of `width` lanes; what leaves the group gives one's own
/// value.
int expected_source(int mode, int lane, int operand, int width) {
  const int group = lane / width * width;
  const int place = lane % width;
  if (mode == 0) return group + (operand % width + width) % width;
  if (mode == 1) return place - operand < 0 ? lane : lane - operand;
  if (mode == 2) return place + operand >= width ? lane : lane + operand;
  const int other = lane ^ operand;
  return other / width > lane / width ? lane : other;
}

TEST_CASE("shuffles of all kinds and widths") {
  DeviceArray<int> out(32);
  for (int mode = 0; mode < 4; ++mode) {
    for (int width = 1; width <= 32; width *= 2) {
      for (int operand = 0; operand < 32; ++operand) {
        run(shuffle_kernel, {.block = 32}, mode, operand, width, out.data());
        const auto values = out.values();
        for (int lane = 0; lane < 32; ++lane) {
          CAPTURE(mode, width, operand, lane);
          REQUIRE(values[static_cast<size_t>(lane)] ==
                  100 + expected_source(mode, lane, operand, width));
        }
      }
    }
  }
}

template <class T>
__global__ void shuffle_type_kernel(T* out) {
  out[threadIdx.x] = __shfl_down_sync(kAll, static_cast<T>(threadIdx.x + 0.5), 1);
}

template <class T>
void check_shuffled_type() {
  DeviceArray<T> out(32);
  run(shuffle_type_kernel<T>, {.block = 32}, out.data());
  const auto values = out.values();
  for (int i = 0; i < 31; ++i) REQUIRE(values[static_cast<size_t>(i)] == static_cast<T>(i + 1.5));
}

TEST_CASE("shuffles move each type") {
  check_shuffled_type<float>();
  check_shuffled_type<double>();
  check_shuffled_type<int>();
  check_shuffled_type<unsigned>();
  check_shuffled_type<long long>();
  check_shuffled_type<unsigned long long>();
}

__global__ void halves_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  // Each half of the warp goes its own way and comes to other collectives.
  if (lane < 16) {
    unsigned sum = lane;
    for (int delta = 8; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffU, sum, delta, 16);
    out[lane] = sum;
  } else {
    out[lane] = __ballot_sync(0xffff0000U, lane % 2 == 0);
  }
  __syncwarp();
  out[32 + lane] = __ballot_sync(kAll, lane % 3 == 0);
}

TEST_CASE("lanes of two masks do not wait for each other") {
  DeviceArray<unsigned> out(64);
  run(halves_kernel, {.block = 32}, out.data());
  const auto values = out.values();
  unsigned thirds = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) thirds |= 1U << lane;
  for (unsigned lane = 0; lane < 32; ++lane) {
    REQUIRE(values[lane] == (lane < 16 ? 120U : 0x55550000U));
    REQUIRE(values[32 + lane] == thirds);
  }
}

__global__ void vote_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __any_sync(kAll, lane == 31) + 2 * __any_sync(kAll, 0) +
              4 * __all_sync(kAll, lane < 32) + 8 * __all_sync(kAll, lane != 7);
}

TEST_CASE("any and all") {
  DeviceArray<int> out(32);
  run(vote_kernel, {.block = 32}, out.data());
  for (const int value : out.values()) REQUIRE(value == 1 + 4);
}

__global__ void match_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  out[lane] = __match_any_sync(kAll, lane / 8);
  int all = -1;
  const unsigned mask = __match_all_sync(kAll, 7ULL, &all);
  int none = -1;
  const unsigned empty = __match_all_sync(kAll, lane == 5 ? 1 : 0, &none);
  out[32 + lane] = mask == kAll && all == 1 && empty == 0 && none == 0;
}

TEST_CASE("match finds lanes of equal values") {
  DeviceArray<unsigned> out(64);
  run(match_kernel, {.block = 32}, out.data());
  const auto values = out.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    REQUIRE(values[lane] == 0xffU << (lane / 8 * 8));
    REQUIRE(values[32 + lane] == 1);
  }
}

__global__ void reduce_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto bits = static_cast<unsigned>(lane);
  const bool right =
      __reduce_add_sync(kAll, lane) == 496 && __reduce_min_sync(kAll, lane - 5) == -5 &&
      __reduce_max_sync(kAll, -lane) == 0 && __reduce_max_sync(kAll, bits) == 31U &&
      __reduce_or_sync(kAll, bits) == 31U && __reduce_and_sync(kAll, bits | 64U) == 64U &&
      __reduce_xor_sync(kAll, 1U) == 0U && __reduce_min_sync(kAll, bits) == 0U;
  out[lane] = right;
}

TEST_CASE("reductions over a warp") {
  DeviceArray<int> out(32);
  run(reduce_kernel, {.block = 32}, out.data());
  for (const int value : out.values()) REQUIRE(value == 1);
}

__global__ void short_warp_kernel(int* out) {
  int value = 1;
  for (int delta = 4; delta > 0; delta /= 2) value += __shfl_xor_sync(kAll, value, delta, 8);
  out[threadIdx.x] = value;
}

TEST_CASE("the last warp of a block may be short") {
  DeviceArray<int> out(40);
  run(short_warp_kernel, {.block = 40}, out.data());
  for (const int value : out.values()) REQUIRE(value == 8);
}

struct Row {
  int lane;
  float values[5];
};

__global__ void exchange_kernel(int* wrong) {
  const int lane = cudasim::lane_index();
  for (int round = 0; round < 3; ++round) {
    Row mine{lane + round, {1, 2, 3, 4, static_cast<float>(lane)}};
    const auto* rows = static_cast<const Row*>(cudasim::warp_exchange(kAll, &mine, sizeof(Row)));
    Row copy[32];
    cudasim::raw_copy(copy, rows, sizeof copy);
    for (int other = 0; other < 32; ++other) {
      if (copy[other].lane != other + round || copy[other].values[4] != static_cast<float>(other)) {
        atomicAdd(wrong, 1);
      }
    }
  }
}

TEST_CASE("an exchange gives every lane all rows") {
  DeviceArray<int> wrong(1);
  run(exchange_kernel, {.grid = 2, .block = 64}, wrong.data());
  REQUIRE(wrong.values()[0] == 0);
}

}  // namespace
}  // namespace heddle::test
