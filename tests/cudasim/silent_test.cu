// Correct kernels: no check finds anything in them.
#include "heddle/tests/cudasim/faults.h"

#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

__global__ void tiled_product_kernel(float* c, const float* a, const float* b, int n) {
  HEDDLE_SHARED(float, tile_a, [16][16]);
  HEDDLE_SHARED(float, tile_b, [16][17]);
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * 16 + y;
  const int col = static_cast<int>(blockIdx.x) * 16 + x;
  float sum = 0;
  for (int first = 0; first < n; first += 16) {
    tile_a[y][x] = row < n && first + x < n ? a[row * n + first + x] : 0;
    tile_b[y][x] = first + y < n && col < n ? b[(first + y) * n + col] : 0;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = sum;
}

TEST_CASE("a tiled matrix product is silent") {
  const int n = GENERATE(16, 33, 40);
  DeviceArray<float> a(static_cast<size_t>(n * n), 2);
  DeviceArray<float> b(static_cast<size_t>(n * n), 3);
  DeviceArray<float> c(static_cast<size_t>(n * n));
  const auto blocks = static_cast<unsigned>((n + 15) / 16);
  Expected expected;
  run(tiled_product_kernel, {.grid = {blocks, blocks}, .block = {16, 16}}, c.data(), a.data(),
      b.data(), n);
  expected.none();
  for (const float value : c.values()) REQUIRE(value == 6 * static_cast<float>(n));
}

__global__ void block_sum_kernel(float* sums, const float* x, int n) {
  HEDDLE_SHARED(float, partial, [8]);
  float sum = 0;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(n); i += blockDim.x) {
    sum += x[blockIdx.x * static_cast<unsigned>(n) + i];
  }
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(~0U, sum, delta);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) all += partial[w];
    sums[blockIdx.x] = all;
  }
}

TEST_CASE("a sum of rows is silent, with several host threads too") {
  DeviceArray<float> x(12 * 1000, 1);
  DeviceArray<float> sums(12);
  Expected expected;
  const ExecutionScope threads({.threads = GENERATE(1, 3)});
  run(block_sum_kernel, {.grid = 12, .block = 256}, sums.data(), x.data(), 1000);
  run(block_sum_kernel, {.grid = 1, .block = 32}, sums.data(), x.data(), 7);
  expected.none();
  REQUIRE(sums.values()[0] == 7);
  REQUIRE(sums.values()[11] == 1000);
}

__global__ void histogram_kernel(int* bins, const int* x, int n) {
  HEDDLE_SHARED(int, mine, [16]);
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) atomicAdd(&mine[x[i] % 16], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

TEST_CASE("atomics of many threads are silent") {
  std::vector<int> values(500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  DeviceArray<int> x(values);
  DeviceArray<int> bins(16);
  Expected expected;
  run(histogram_kernel, {.grid = 4, .block = 128}, bins.data(), x.data(), 500);
  expected.none();
  REQUIRE(bins.values()[0] == 32);
}

__global__ void halves_kernel(unsigned short* y, const unsigned short* x, unsigned char* bytes) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = static_cast<unsigned short>(x[i] + 1);
  bytes[i] = static_cast<unsigned char>(i);
}

TEST_CASE("neighbours in one word are silent, of other blocks and host threads too") {
  DeviceArray<unsigned short> x(99 * 7, 4);
  DeviceArray<unsigned short> y(99 * 7);
  DeviceArray<unsigned char> bytes(99 * 7);
  Expected expected;
  const ExecutionScope threads({.threads = 4});
  for (int repeat = 0; repeat < 20; ++repeat) {
    run(halves_kernel, {.grid = 7, .block = 99}, y.data(),
        static_cast<const unsigned short*>(x.data()), bytes.data());
  }
  expected.none();
}

__global__ void in_place_kernel(float* x, int shift) {
  const float value = x[(threadIdx.x + static_cast<unsigned>(shift)) % blockDim.x];
  __syncthreads();
  x[threadIdx.x] = value + 1;
}

TEST_CASE("a barrier and the next launch order global memory") {
  DeviceArray<float> x(128);
  Expected expected;
  for (int shift = 0; shift < 5; ++shift) run(in_place_kernel, {.block = 128}, x.data(), shift);
  expected.none();
  for (const float value : x.values()) REQUIRE(value == 5);
}

__global__ void pipeline_kernel(float* y, const float* x, int n_tiles) {
  HEDDLE_SHARED(float, tiles, [2][64][4]);
  const unsigned t = threadIdx.x;
  cudasim::async_copy(tiles[0][t], x + t * 4, 16, 16);
  cudasim::async_commit();
  float sum = 0;
  for (int i = 0; i < n_tiles; ++i) {
    if (i + 1 < n_tiles) {
      cudasim::async_copy(tiles[(i + 1) % 2][t], x + (static_cast<unsigned>(i + 1) * 64 + t) * 4,
                          16, 16);
    }
    cudasim::async_commit();
    cudasim::async_wait(1);
    __syncthreads();
    sum += tiles[i % 2][63 - t][1];
    __syncthreads();
  }
  y[t] = sum;
}

TEST_CASE("a pipeline of asynchronous copies is silent") {
  DeviceArray<float> x(5 * 256, 1);
  DeviceArray<float> y(64);
  Expected expected;
  run(pipeline_kernel, {.block = 64}, y.data(), x.data(), 5);
  expected.none();
  for (const float value : y.values()) REQUIRE(value == 5);
}

struct Many {
  const float* x[20];
  float scale[20];
  int n;
};

__global__ void by_value_kernel(Many many, float* y) {
  float sum = 0;
  for (int i = 0; i < many.n; ++i) sum += many.x[i][threadIdx.x] * many.scale[i];
  y[threadIdx.x] = sum;
}

TEST_CASE("arguments that are large structures are silent") {
  DeviceArray<float> x(32, 2);
  DeviceArray<float> y(32);
  Many many{};
  many.n = 20;
  for (int i = 0; i < 20; ++i) {
    many.x[i] = x.data();
    many.scale[i] = 1;
  }
  Expected expected;
  run(by_value_kernel, {.block = 32}, many, y.data());
  expected.none();
  REQUIRE(y.values()[31] == 40);
}

}  // namespace
}  // namespace heddle::test
