// Blocks of threads: indices, barriers, shared memory, warps.
#include "heddle/tests/cudasim/support.h"

#include "heddle/kernels/device/shared.cuh"

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

__global__ void warp_sum_kernel(const int* in, int* out) {
  int value = in[threadIdx.x];
  for (int delta = 16; delta > 0; delta /= 2) value += __shfl_xor_sync(~0U, value, delta);
  out[threadIdx.x] = value;
}

TEST_CASE("a warp sums by shuffles") {
  std::vector<int> in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * i);
  DeviceArray<int> source(in);
  DeviceArray<int> out(64);
  run(warp_sum_kernel, {.block = 64}, source.data(), out.data());
  int sums[2] = {0, 0};
  for (size_t i = 0; i < in.size(); ++i) sums[i / 32] += in[i];
  const auto values = out.values();
  for (size_t i = 0; i < in.size(); ++i) REQUIRE(values[i] == sums[i / 32]);
}

}  // namespace
}  // namespace heddle::test
