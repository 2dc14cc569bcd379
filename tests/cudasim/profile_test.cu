// Exact counts of known access patterns.
#include "heddle/tests/cudasim/faults.h"

#include <cudasim/profile.h>
#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

using cudasim::AccessClass;
using cudasim::AccessCounts;
using cudasim::KernelProfile;
using cudasim::Profile;

__global__ void strided_copy_kernel(float* y, const float* x, int stride, int offset) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * static_cast<unsigned>(stride) + static_cast<unsigned>(offset)];  // line: the copy
}

KernelProfile profile_copy(int stride, int offset) {
  DeviceArray<float> x(128 * 32 + 32);
  DeviceArray<float> y(128);
  Profile profile;
  run(strided_copy_kernel, {.grid = 2, .block = 64}, y.data(), x.data(), stride, offset);
  return profile.kernel("strided_copy");
}

TEST_CASE("coalesced floats move four sectors a request and each once") {
  const KernelProfile kernel = profile_copy(1, 0);
  REQUIRE(kernel.kernel == "test::strided_copy_kernel");
  REQUIRE(kernel.launches == 1);
  REQUIRE(kernel.blocks == 2);
  REQUIRE(kernel.threads == 128);
  for (const AccessClass which : {AccessClass::kGlobalLoad, AccessClass::kGlobalStore}) {
    const AccessCounts& counts = kernel.of(which);
    REQUIRE(counts.requests == 4);
    REQUIRE(counts.partial_requests == 0);
    REQUIRE(counts.lanes == 128);
    REQUIRE(counts.bytes == 512);
    REQUIRE(counts.sectors == 16);
    REQUIRE(counts.sectors_per_request() == 4);
  }
  REQUIRE(kernel.read_bytes == 512);
  REQUIRE(kernel.written_sectors == 16);
  REQUIRE(kernel.load_excess() == 1);
  REQUIRE(kernel.store_excess() == 1);
}

TEST_CASE("a stride spreads a request over more sectors") {
  REQUIRE(profile_copy(2, 0).of(AccessClass::kGlobalLoad).sectors_per_request() == 8);
  REQUIRE(profile_copy(8, 0).of(AccessClass::kGlobalLoad).sectors_per_request() == 32);
  REQUIRE(profile_copy(32, 0).of(AccessClass::kGlobalLoad).sectors_per_request() == 32);
  REQUIRE(profile_copy(0, 0).of(AccessClass::kGlobalLoad).sectors_per_request() == 1);
}

TEST_CASE("an address that is not aligned costs a fifth sector") {
  const KernelProfile kernel = profile_copy(1, 1);
  REQUIRE(kernel.of(AccessClass::kGlobalLoad).sectors_per_request() == 5);
  REQUIRE(kernel.read_sectors == 17);
  REQUIRE(kernel.load_excess() == 20.0 / 17);
}

TEST_CASE("counts belong to source lines") {
  const KernelProfile kernel = profile_copy(1, 0);
  REQUIRE(kernel.lines.size() == 2);
  for (const auto& line : kernel.lines) {
    REQUIRE(line.line == line_with("profile_test.cu", "the copy"));
    REQUIRE(line.counts.requests == 4);
  }
}

__global__ void vector_copy_kernel(float* y, const float* x) {
  const unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  float four[4];
  cudasim::report_access(x + i, 16, cudasim::Access::kRead);
  cudasim::raw_copy(four, x + i, 16);
  cudasim::report_access(y + i, 16, cudasim::Access::kWrite);
  cudasim::raw_copy(y + i, four, 16);
}

TEST_CASE("float4 moves sixteen sectors a request") {
  DeviceArray<float> x(512);
  DeviceArray<float> y(512);
  Profile profile;
  run(vector_copy_kernel, {.block = 128}, y.data(), x.data());
  const AccessCounts counts = profile.kernel("vector_copy").of(AccessClass::kGlobalLoad);
  REQUIRE(counts.requests == 4);
  REQUIRE(counts.sectors == 64);
}

template <int kPitch>
__global__ void transpose_kernel(float* y, const float* x) {
  HEDDLE_SHARED(float, tile, [32][kPitch]);
  tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

template <int kPitch>
KernelProfile profile_transpose() {
  DeviceArray<float> x(1024);
  DeviceArray<float> y(1024);
  Profile profile;
  run(transpose_kernel<kPitch>, {.block = {32, 32}}, y.data(), x.data());
  return profile.kernel("transpose_kernel");
}

TEST_CASE("a column of a tile of 32 hits one bank, with padding all of them") {
  const KernelProfile plain = profile_transpose<32>();
  REQUIRE(plain.of(AccessClass::kSharedStore).conflicts == 0);
  REQUIRE(plain.of(AccessClass::kSharedLoad).requests == 32);
  REQUIRE(plain.of(AccessClass::kSharedLoad).passes == 32 * 32);
  REQUIRE(plain.of(AccessClass::kSharedLoad).conflicts == 32 * 31);
  REQUIRE(plain.barriers == 1);
  REQUIRE(profile_transpose<33>().of(AccessClass::kSharedLoad).conflicts == 0);
  REQUIRE(profile_transpose<34>().of(AccessClass::kSharedLoad).conflicts == 32);
}

__global__ void shared_rows_kernel(int bytes, int pitch) {
  HEDDLE_SHARED(char, rows, [32 * 128]);
  char* mine = rows + static_cast<int>(threadIdx.x) * pitch;
  cudasim::report_access(mine, static_cast<size_t>(bytes), cudasim::Access::kWrite);
}

AccessCounts profile_rows(int bytes, int pitch) {
  const ChecksScope off(Checks::kOff);
  Profile profile;
  run(shared_rows_kernel, {.block = 32}, bytes, pitch);
  return profile.kernel("shared_rows").of(AccessClass::kSharedStore);
}

TEST_CASE("wide shared accesses count in halves and in phases of eight lanes") {
  REQUIRE(profile_rows(8, 8).passes == 2);
  REQUIRE(profile_rows(8, 8).conflicts == 0);
  REQUIRE(profile_rows(16, 16).passes == 4);
  REQUIRE(profile_rows(16, 16).conflicts == 0);
  // Rows of ldmatrix: 128 bytes apart all eight begin in one bank, 16 more move each on by four.
  REQUIRE(profile_rows(16, 128).passes == 32);
  REQUIRE(profile_rows(16, 128).conflicts == 28);
  REQUIRE(profile_rows(16, 80).conflicts == 0);
  REQUIRE(profile_rows(4, 0).passes == 1);
  REQUIRE(profile_rows(1, 1).passes == 1);
}

__global__ void count_kernel(int* bins, int n_bins) {
  atomicAdd(&bins[threadIdx.x % static_cast<unsigned>(n_bins)], 1);
}

TEST_CASE("atomics that share an address collide") {
  DeviceArray<int> bins(32);
  Profile profile;
  run(count_kernel, {.block = 64}, bins.data(), 32);
  REQUIRE(profile.kernel("count").of(AccessClass::kGlobalAtomic).collisions == 0);
  profile.clear();
  run(count_kernel, {.block = 64}, bins.data(), 4);
  REQUIRE(profile.kernel("count").of(AccessClass::kGlobalAtomic).collisions == 2 * 28);
}

__global__ void divergent_kernel(float* y, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i % 2 == 0) y[i] = 1;
  for (int k = 0; k < i % 4; ++k) y[32 + k * 32 + i] = 2;
  if (i < n) y[160 + i] = 3;
  __syncwarp();
}

TEST_CASE("requests of fewer lanes are partial") {
  DeviceArray<float> y(256);
  Profile profile;
  run(divergent_kernel, {.block = 32}, y.data(), 32);
  const KernelProfile kernel = profile.kernel("divergent");
  const AccessCounts& stores = kernel.of(AccessClass::kGlobalStore);
  REQUIRE(stores.requests == 1 + 3 + 1);
  REQUIRE(stores.partial_requests == 1 + 3);
  REQUIRE(stores.lanes == 16 + (24 + 16 + 8) + 32);
  REQUIRE(kernel.warp_syncs == 1);
}

TEST_CASE("counts do not depend on checks, host threads or the order of blocks") {
  const ChecksScope off(Checks::kOff);
  const ExecutionScope threads({.threads = 3, .order = cudasim::BlockOrder::kReversed});
  const KernelProfile kernel = profile_copy(2, 0);
  REQUIRE(kernel.blocks == 2);
  REQUIRE(kernel.of(AccessClass::kGlobalLoad).requests == 4);
  REQUIRE(kernel.of(AccessClass::kGlobalLoad).sectors == 32);
  REQUIRE(kernel.read_sectors == 32);
}

TEST_CASE("a profile is a table and JSON") {
  DeviceArray<float> x(128);
  DeviceArray<float> y(128);
  Profile profile;
  run(strided_copy_kernel, {.grid = 2, .block = 64}, y.data(), x.data(), 1, 0);
  REQUIRE_THAT(profile.table(), ContainsSubstring("test::strided_copy_kernel"));
  REQUIRE_THAT(profile.table(), ContainsSubstring("profile_test.cu:"));
  REQUIRE_THAT(profile.json(), ContainsSubstring("\"sectors\": 16"));
}

}  // namespace
}  // namespace heddle::test
