// Planted races: each is found, with both accesses. What is ordered is in silent_test.cu.
#include "heddle/tests/cudasim/faults.h"

#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

int line(const std::string& text) { return line_with("race_findings_test.cu", text); }

__global__ void no_barrier_kernel(float* y) {
  HEDDLE_SHARED(float, tile, [64]);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);  // line: fills the tile
  y[threadIdx.x] = tile[63 - threadIdx.x];              // line: reads it turned
}

TEST_CASE("a missing barrier between write and read of shared memory") {
  DeviceArray<float> y(64);
  Expected expected;
  run(no_barrier_kernel, {.block = 64}, y.data());
  // The first threads find what nobody has written yet, the others what may be too new.
  bool race = false;
  for (const Finding& finding : expected.all()) {
    if (finding.kind != FindingKind::kRace) continue;
    race = true;
    REQUIRE(finding.kernel == "test::no_barrier_kernel");
    REQUIRE(finding.other.has_value());
    const bool read_first = finding.other->line == line("reads it turned");
    REQUIRE(finding.access.line == line(read_first ? "fills the tile" : "reads it turned"));
    REQUIRE(finding.other->line == line(read_first ? "reads it turned" : "fills the tile"));
    REQUIRE_THAT(finding.memory, ContainsSubstring("shared variable tile"));
  }
  REQUIRE(race);
}

__global__ void reused_tile_kernel(float* y, const float* x, int n_tiles) {
  HEDDLE_SHARED(float, tile, [64]);
  float sum = 0;
  for (int t = 0; t < n_tiles; ++t) {
    tile[threadIdx.x] = x[t * 64 + static_cast<int>(threadIdx.x)];  // line: next tile
    __syncthreads();
    sum += tile[63 - threadIdx.x];  // line: last tile
  }
  y[threadIdx.x] = sum;
}

TEST_CASE("a tile that is filled again while others still read it") {
  DeviceArray<float> x(256);
  DeviceArray<float> y(64);
  Expected expected;
  run(reused_tile_kernel, {.block = 64}, y.data(), x.data(), 4);
  for (const Finding& finding : expected.all()) REQUIRE(finding.kind == FindingKind::kRace);
  REQUIRE(!expected.all().empty());
  const Finding finding = expected.all()[0];
  REQUIRE(finding.access.line + finding.other->line == line("next tile") + line("last tile"));
}

__global__ void same_word_kernel(int* y) {
  y[0] = static_cast<int>(threadIdx.x);  // line: everyone
}

TEST_CASE("two threads of a block that write one word") {
  DeviceArray<int> y(1);
  Expected expected;
  run(same_word_kernel, {.block = 2}, y.data());
  const Finding finding = expected.only(FindingKind::kRace);
  REQUIRE(finding.access.line == line("everyone"));
  REQUIRE(finding.access.thread == Triple{1, 0, 0});
  REQUIRE(finding.other->thread == Triple{0, 0, 0});
  REQUIRE(finding.other->what == "write");
  REQUIRE_THAT(finding.memory, ContainsSubstring("at byte 0 of allocation"));
}

TEST_CASE("two blocks that write one word") {
  DeviceArray<int> y(1);
  Expected expected;
  run(same_word_kernel, {.grid = {1, 3, 2}}, y.data());
  const Finding finding = expected.only(FindingKind::kRace);
  REQUIRE(finding.access.block == Triple{0, 1, 0});
  REQUIRE(finding.other->block == Triple{0, 0, 0});
  REQUIRE(finding.count == 5);
}

__global__ void neighbour_kernel(int* y) {
  y[blockIdx.x * 32 + threadIdx.x] += y[(blockIdx.x * 32 + threadIdx.x + 32) % 128];  // line: other
}

TEST_CASE("a block that reads what another writes") {
  DeviceArray<int> y(128);
  Expected expected;
  run(neighbour_kernel, {.grid = 4, .block = 32}, y.data());
  REQUIRE(!expected.all().empty());
  for (const Finding& finding : expected.all()) {
    REQUIRE(finding.kind == FindingKind::kRace);
    REQUIRE(finding.access.block != finding.other->block);
    REQUIRE(finding.access.line == line("other"));
  }
}

__global__ void atomic_and_plain_kernel(int* sum, int* y) {
  atomicAdd(sum, 1);      // line: an atomic
  y[threadIdx.x] = *sum;  // line: a plain read
}

TEST_CASE("a plain read races with another thread's atomic") {
  DeviceArray<int> sum(1);
  DeviceArray<int> y(32);
  Expected expected;
  run(atomic_and_plain_kernel, {.block = 32}, sum.data(), y.data());
  REQUIRE(!expected.all().empty());
  for (const Finding& finding : expected.all()) {
    REQUIRE(finding.kind == FindingKind::kRace);
    REQUIRE(finding.access.line + finding.other->line == line("an atomic") + line("a plain read"));
  }
}

__global__ void bytes_kernel(unsigned char* y, int shift) {
  y[threadIdx.x] = 1;
  y[(threadIdx.x + static_cast<unsigned>(shift)) % 32] = 2;  // line: a neighbour's byte
}

TEST_CASE("bytes of one word are apart, one byte is not") {
  DeviceArray<unsigned char> y(32);
  Expected expected;
  run(bytes_kernel, {.block = 32}, y.data(), 0);
  expected.none();
  run(bytes_kernel, {.block = 32}, y.data(), 1);
  REQUIRE(!expected.all().empty());
  REQUIRE(expected.all()[0].kind == FindingKind::kRace);
}

__global__ void byte_and_word_kernel(unsigned char* y, int word_first) {
  auto* words = reinterpret_cast<unsigned*>(y);
  if (threadIdx.x == 0 && word_first != 0) words[1] = 7;
  if (threadIdx.x == 1) y[6] = 1;
  if (threadIdx.x == 2 && word_first == 0) words[1] = 7;
}

TEST_CASE("a word races with each of its bytes") {
  const int word_first = GENERATE(0, 1);
  DeviceArray<unsigned char> y(32);
  Expected expected;
  run(byte_and_word_kernel, {.block = 32}, y.data(), word_first);
  static_cast<void>(expected.only(FindingKind::kRace));
}

__global__ void warp_kernel(int* y, unsigned mask) {
  HEDDLE_SHARED(int, tile, [64]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  if ((mask >> threadIdx.x % 32 & 1U) != 0) __syncwarp(mask);
  y[threadIdx.x] = tile[threadIdx.x ^ 1U];  // line: the neighbour's
}

TEST_CASE("a warp's barrier orders the lanes of its mask") {
  DeviceArray<int> y(64);
  Expected expected;
  run(warp_kernel, {.block = 64}, y.data(), ~0U);
  expected.none();
  run(warp_kernel, {.block = 64}, y.data(), 0xffffU);
  for (const Finding& finding : expected.all()) {
    REQUIRE(
        (finding.kind == FindingKind::kRace || finding.kind == FindingKind::kUninitialisedRead));
    REQUIRE(finding.access.thread[0] % 32 >= 16);
  }
  REQUIRE(!expected.all().empty());
}

__global__ void other_warp_kernel(int* y) {
  HEDDLE_SHARED(int, tile, [64]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  y[threadIdx.x] =
      tile[threadIdx.x / 32 * 32 == 0 ? threadIdx.x : threadIdx.x - 32];  // line: other warp
}

TEST_CASE("a warp's barrier orders no other warp") {
  DeviceArray<int> y(64);
  Expected expected;
  run(other_warp_kernel, {.block = 64}, y.data());
  const Finding finding = expected.only(FindingKind::kRace);
  REQUIRE(finding.access.thread[0] == finding.other->thread[0] + 32);
  REQUIRE(finding.count == 32);
}

__global__ void shuffle_kernel(int* y) {
  HEDDLE_SHARED(int, tile, [32]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  const int other = __shfl_xor_sync(~0U, static_cast<int>(threadIdx.x), 1);
  y[threadIdx.x] = tile[other];
}

TEST_CASE("a shuffle orders no memory") {
  DeviceArray<int> y(32);
  Expected expected;
  run(shuffle_kernel, {.block = 32}, y.data());
  static_cast<void>(expected.only(FindingKind::kRace));
}

__global__ void last_block_kernel(float* partial, unsigned* done, float* y, int fence) {
  if (threadIdx.x == 0) partial[blockIdx.x] = 1;
  HEDDLE_SHARED(unsigned, place);
  if (threadIdx.x == 0) {
    if (fence != 0) __threadfence();
    place = atomicAdd(done, 1U);
  }
  __syncthreads();
  if (place != gridDim.x - 1) return;
  if (fence != 0) __threadfence();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *y = sum;
  }
}

TEST_CASE("the last block may read the others' results behind fences only") {
  DeviceArray<float> partial(8);
  DeviceArray<unsigned> done(1);
  DeviceArray<float> y(1);
  Expected expected;
  run(last_block_kernel, {.grid = 8, .block = 32}, partial.data(), done.data(), y.data(), 1);
  expected.none();
  REQUIRE(y.values()[0] == 8);
  DeviceArray<unsigned> again(1);
  run(last_block_kernel, {.grid = 8, .block = 32}, partial.data(), again.data(), y.data(), 0);
  static_cast<void>(expected.only(FindingKind::kRace));
}

TEST_CASE("races are not looked for at the level of memory") {
  DeviceArray<int> y(1);
  Expected expected;
  ChecksScope memory(Checks::kMemory);
  run(same_word_kernel, {.block = 2}, y.data());
  expected.none();
}

}  // namespace
}  // namespace heddle::test
