// Blocks of threads: indices, barriers, shared memory, warps.
#include "heddle/tests/cudasim/support.h"

#include <cudasim/findings.h>
#include <cmath>
#include <thread>

#include "heddle/kernels/device/shared.cuh"

#include <cudasim/execution.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace heddle::test {
namespace {

__global__ void index_kernel(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned place = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[place] = static_cast<int>(place);
}

TEST_CASE("each thread has its index") {
  const int count = 3 * 2 * 4 * 5 * 6 * 2;
  DeviceArray<int> out(count, -1);
  run(index_kernel, {.grid = {3, 2, 4}, .block = {5, 6, 2}}, out.data());
  const auto values = out.values();
  for (int i = 0; i < count; ++i) REQUIRE(values[static_cast<size_t>(i)] == i);
}

__global__ void reverse_kernel(const float* in, float* out) {
  HEDDLE_SHARED(float, tile, [256]);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("a barrier makes shared memory visible") {
  std::vector<float> in(256);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  DeviceArray<float> source(in);
  DeviceArray<float> out(256);
  run(reverse_kernel, {.block = 256}, source.data(), out.data());
  const auto values = out.values();
  for (size_t i = 0; i < in.size(); ++i) REQUIRE(values[i] == in[255 - i]);
}

#ifdef __SANITIZE_ADDRESS__
__global__ void where_kernel(uintptr_t* out) {
  volatile int local = 0;
  out[threadIdx.x] = reinterpret_cast<uintptr_t>(&local);
}

// Marks that stay where a stack was are found at fault in whatever lies there next.
TEST_CASE("a thread that ends takes the sanitizer's marks off its kernels' stacks") {
  DeviceArray<uintptr_t> where(64);
  std::thread([&] { run(where_kernel, {.block = 64}, where.data()); }).join();
  for (const uintptr_t place : where.values()) {
    INFO("at " << place);
    REQUIRE(__asan_region_is_poisoned(reinterpret_cast<void*>(place), 600) == nullptr);
  }
}
#endif

__global__ void vote_kernel(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  const int odd = thread % 2;
  out[0 * 100 + thread] = __syncthreads_count(odd);
  out[1 * 100 + thread] = __syncthreads_and(thread < 100);
  out[2 * 100 + thread] = __syncthreads_and(odd);
  out[3 * 100 + thread] = __syncthreads_or(thread == 99);
  out[4 * 100 + thread] = __syncthreads_or(0);
}

TEST_CASE("barriers that count") {
  DeviceArray<int> out(500);
  run(vote_kernel, {.block = 100}, out.data());
  const auto values = out.values();
  for (size_t i = 0; i < 100; ++i) {
    REQUIRE(values[i] == 50);
    REQUIRE(values[100 + i] == 1);
    REQUIRE(values[200 + i] == 0);
    REQUIRE(values[300 + i] == 1);
    REQUIRE(values[400 + i] == 0);
  }
}

__global__ void dynamic_kernel(float* out, int count) {
  HEDDLE_SHARED(float, scale);
  float* rows = dynamic_shared<float>();
  if (threadIdx.x == 0) scale = 3.0F;
  rows[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < count)
    out[threadIdx.x] = scale * rows[count - 1 - threadIdx.x];
}

TEST_CASE("dynamic shared memory beside a static variable") {
  DeviceArray<float> out(64);
  run(dynamic_kernel, {.block = 64, .shared_bytes = 64 * sizeof(float)}, out.data(), 64);
  const auto values = out.values();
  for (size_t i = 0; i < 64; ++i) REQUIRE(values[i] == 3.0F * static_cast<float>(63 - i));
}

__global__ void fresh_shared_kernel(int* stale) {
  HEDDLE_SHARED(unsigned, word, [32]);
  if (word[threadIdx.x] != 0xffffffffU) atomicAdd(stale, 1);
  __syncthreads();
  word[threadIdx.x] = 7;
}

TEST_CASE("a block does not find what the one before it left") {
  const cudasim::ExpectFindings planted;
  DeviceArray<int> stale(1);
  run(fresh_shared_kernel, {.grid = 5, .block = 32}, stale.data());
  REQUIRE(stale.values()[0] == 0);
}

__global__ void early_exit_kernel(int* out) {
  if (threadIdx.x >= 70) return;
  out[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] += __syncthreads_count(1);
}

TEST_CASE("threads that have ended are not waited for") {
  const cudasim::ExpectFindings planted;
  DeviceArray<int> out(70);
  run(early_exit_kernel, {.block = 128}, out.data());
  for (const int value : out.values()) REQUIRE(value == 71);
}

__global__ void flag_kernel(int* out, unsigned setter) {
  HEDDLE_SHARED(int, flag);
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (atomicAdd(&flag, 0) == 0) __nanosleep(20);
  }
  if (threadIdx.x == setter) atomicExch(&flag, 1);
  out[threadIdx.x] = 1;
}

TEST_CASE("a thread that sleeps lets the others run") {
  DeviceArray<int> out(64);
  run(flag_kernel, {.block = 64}, out.data(), 63);
  run(flag_kernel, {.block = 32}, out.data(), 31);
  for (const int value : out.values()) REQUIRE(value == 1);
}

__global__ void landing_kernel(const float* in, float* out) {
  HEDDLE_SHARED(float, tile, [2][32][4]);
  const int lane = static_cast<int>(threadIdx.x);
  for (int stage = 0; stage < 2; ++stage) {
    cudasim::async_copy(tile[stage][lane], in + (stage * 32 + lane) * 4, 16, stage == 0 ? 16 : 8);
    cudasim::async_commit();
  }
  out[lane] = tile[0][lane][0];
  cudasim::async_wait(1);
  out[32 + lane] = tile[0][lane][3];
  out[64 + lane] = tile[1][lane][0];
  cudasim::async_wait(0);
  out[96 + lane] = tile[1][lane][1];
  out[128 + lane] = tile[1][lane][2];
}

TEST_CASE("asynchronous copies land at their wait and no earlier") {
  const cudasim::ExpectFindings planted;
  std::vector<float> in(256);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  DeviceArray<float> source(in);
  DeviceArray<float> out(160);
  run(landing_kernel, {.block = 32}, source.data(), out.data());
  const auto values = out.values();
  for (size_t lane = 0; lane < 32; ++lane) {
    REQUIRE(std::isnan(values[lane]));
    REQUIRE(values[32 + lane] == in[lane * 4 + 3]);
    REQUIRE(std::isnan(values[64 + lane]));
    REQUIRE(values[96 + lane] == in[128 + lane * 4 + 1]);
    REQUIRE(values[128 + lane] == 0.0F);
  }
}

}  // namespace
}  // namespace heddle::test
