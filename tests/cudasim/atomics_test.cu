// Atomics: the value left and the values returned, over threads and blocks.
#include <algorithm>
#include <limits>

#include "heddle/tests/cudasim/support.h"

#include <cudasim/execution.h>
#include "heddle/kernels/device/atomic.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

template <class T>
__global__ void add_kernel(T* sum, T* old) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  old[thread] = atomicAdd(sum, static_cast<T>(1));
}

template <class T>
void check_add() {
  DeviceArray<T> sum(1);
  DeviceArray<T> old(4 * 96);
  run(add_kernel<T>, {.grid = 4, .block = 96}, sum.data(), old.data());
  REQUIRE(sum.values()[0] == static_cast<T>(384));
  auto values = old.values();
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == static_cast<T>(i));
}

TEST_CASE("atomicAdd counts each thread once") {
  const cudasim::ExecutionSettings outer = cudasim::execution_settings();
  for (const int threads : {1, 3}) {
    cudasim::set_execution_settings({.threads = threads});
    check_add<int>();
    check_add<unsigned>();
    check_add<unsigned long long>();
    check_add<float>();
    check_add<double>();
  }
  cudasim::set_execution_settings(outer);
}

template <class T>
__global__ void extremes_kernel(T* low, T* high) {
  const T value = static_cast<T>(threadIdx.x) - static_cast<T>(7);
  atomicMin(low, value);
  atomicMax(high, value);
}

template <class T>
void check_extremes() {
  DeviceArray<T> low(1, std::numeric_limits<T>::max());
  DeviceArray<T> high(1, std::numeric_limits<T>::min());
  run(extremes_kernel<T>, {.block = 64}, low.data(), high.data());
  const bool is_signed = std::numeric_limits<T>::is_signed;
  REQUIRE(low.values()[0] == (is_signed ? static_cast<T>(-7) : T{0}));
  REQUIRE(high.values()[0] == (is_signed ? static_cast<T>(56) : static_cast<T>(-1)));
}

TEST_CASE("atomicMin and atomicMax compare as the type does") {
  check_extremes<int>();
  check_extremes<unsigned>();
  check_extremes<long long>();
  check_extremes<unsigned long long>();
}

__global__ void bits_kernel(unsigned* words) {
  const unsigned bit = 1U << threadIdx.x;
  atomicOr(words, bit);
  atomicAnd(words + 1, ~bit);
  atomicXor(words + 2, bit);
}

TEST_CASE("atomics on bits") {
  DeviceArray<unsigned> words({0U, 0xffffffffU, 0x0000ffffU});
  run(bits_kernel, {.block = 16}, words.data());
  REQUIRE(words.values() == std::vector<unsigned>{0xffffU, 0xffff0000U, 0U});
}

__global__ void wrap_kernel(unsigned* up, unsigned* down) {
  atomicInc(up, 9);
  atomicDec(down, 9);
}

TEST_CASE("atomicInc and atomicDec wrap at their limit") {
  DeviceArray<unsigned> up(1, 0);
  DeviceArray<unsigned> down(1, 0);
  run(wrap_kernel, {.block = 23}, up.data(), down.data());
  REQUIRE(up.values()[0] == 3);
  REQUIRE(down.values()[0] == 7);
}

__global__ void exchange_kernel(unsigned long long* word, int* lock, int* won) {
  if (atomicCAS(lock, 0, 1) == 0) atomicAdd(won, 1);
  atomicSub(won + 1, 2);
  atomicExch(word, 0x1234567890abcdefULL);
}

TEST_CASE("compare-and-swap lets one thread win") {
  DeviceArray<unsigned long long> word(1);
  DeviceArray<int> lock(1);
  DeviceArray<int> won(2);
  run(exchange_kernel, {.grid = 3, .block = 40}, word.data(), lock.data(), won.data());
  REQUIRE(word.values()[0] == 0x1234567890abcdefULL);
  REQUIRE(won.values() == std::vector<int>{1, -240});
}

__global__ void count_kernel(const unsigned char* values, int* counts) {
  HEDDLE_SHARED(int, bins, [16]);
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[values[blockIdx.x * blockDim.x + threadIdx.x] % 16], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(counts + threadIdx.x, bins[threadIdx.x]);
}

TEST_CASE("a histogram in shared memory") {
  std::vector<unsigned char> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned char>(i * i);
  std::vector<int> expected(16);
  for (const unsigned char value : values) ++expected[value % 16];
  DeviceArray<unsigned char> in(values);
  DeviceArray<int> counts(16);
  run(count_kernel, {.grid = 8, .block = 128}, in.data(), counts.data());
  REQUIRE(counts.values() == expected);
}

__global__ void helpers_kernel(int64_t* sum, float* largest) {
  atomic_add(sum, static_cast<int64_t>(threadIdx.x) - 40);
  atomic_max_not_negative(largest, static_cast<float>(threadIdx.x) * 0.25F);
}

TEST_CASE("the helpers of kernels/device/atomic.cuh") {
  DeviceArray<int64_t> sum(1, 5);
  DeviceArray<float> largest(1, 1.0F);
  run(helpers_kernel, {.block = 64}, sum.data(), largest.data());
  REQUIRE(sum.values()[0] == 5 + 2016 - 40 * 64);
  REQUIRE(largest.values()[0] == 15.75F);
}

}  // namespace
}  // namespace heddle::test
