// What ends a launch: each fault is named instead of hanging or passing.
#include "heddle/tests/cudasim/misuse.h"

#include <stdexcept>

#include <cudasim/findings.h>
#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

__global__ void some_wait_kernel(float* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __shfl_xor_sync(0xffffffffU, 1, 1);
  }
  if (out != nullptr) *out = 1;
}

TEST_CASE("threads that wait for each other in different places end the launch") {
  const cudasim::ExpectFindings planted;
  const std::string text = failure_of(some_wait_kernel, {.block = 64}, nullptr);
  REQUIRE_THAT(text, ContainsSubstring("block (0, 0, 0): the block cannot go on: of 64 threads, 32 "
                                       "wait at a barrier, 32 in a warp collective"));
}

__global__ void throwing_kernel(int block) {
  __syncthreads();
  if (blockIdx.x == static_cast<unsigned>(block) && threadIdx.x == 3) {
    throw std::runtime_error("bad luck");
  }
  __syncthreads();
}

TEST_CASE("a kernel that throws ends its launch and no other") {
  const cudasim::ChecksScope off(cudasim::Checks::kOff);  // the exception is memory of the host
  const std::string text = failure_of(throwing_kernel, {.grid = 4, .block = 32}, 2);
  REQUIRE_THAT(text, ContainsSubstring("block (2, 0, 0): the kernel threw: bad luck"));
  run(throwing_kernel, {.grid = 4, .block = 32}, -1);
}

__global__ void own_text_kernel() {
  if (threadIdx.x == 1) cudasim::fail_launch("nothing here is right");
}

TEST_CASE("a helper ends the launch with its own words") {
  REQUIRE_THAT(failure_of(own_text_kernel, {.block = 2}),
               ContainsSubstring("nothing here is right"));
}

__global__ void trap_kernel() { __trap(); }

TEST_CASE("__trap ends the launch") {
  REQUIRE_THAT(failure_of(trap_kernel, {.block = 2}), ContainsSubstring("__trap"));
}

__global__ void exited_lane_kernel() {
  if (threadIdx.x == 5) return;
  __shfl_sync(0xffffffffU, 1, 0);
}

__global__ void exited_early_kernel() {
  if (threadIdx.x > 5) {
    __syncwarp(0xffffffc0U);
    return;
  }
  __nanosleep(10);
  __ballot_sync(0xffffffffU, 1);
}

TEST_CASE("a collective must not name lanes that have ended") {
  REQUIRE_THAT(failure_of(exited_lane_kernel, {.block = 32}),
               ContainsSubstring("thread 5 has ended, but a warp collective that others"));
  REQUIRE_THAT(failure_of(exited_early_kernel, {.block = 32}),
               ContainsSubstring("names lanes whose threads have ended"));
}

__global__ void wrong_mask_kernel() { __syncwarp(0xfffffffeU); }

TEST_CASE("a collective's mask names its caller") {
  REQUIRE_THAT(failure_of(wrong_mask_kernel, {.block = 32}),
               ContainsSubstring("without the caller's lane"));
}

__global__ void absent_source_kernel() {
  if (threadIdx.x < 8) __shfl_sync(0xffU, 1, 9);
}

TEST_CASE("a shuffle reads from lanes that take part") {
  REQUIRE_THAT(failure_of(absent_source_kernel, {.block = 32}),
               ContainsSubstring("reads from lane 9, which does not take part"));
}

__global__ void mixed_collectives_kernel() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __ballot_sync(0xffffffffU, 1);
  }
}

TEST_CASE("lanes of one mask come to the same collective") {
  REQUIRE_THAT(failure_of(mixed_collectives_kernel, {.block = 32}),
               ContainsSubstring("different warp collectives"));
}

__global__ void width_kernel() { __shfl_xor_sync(0xffffffffU, 1, 1, 12); }

TEST_CASE("a shuffle's width is a power of two") {
  REQUIRE_THAT(failure_of(width_kernel, {.block = 32}), ContainsSubstring("width is 12"));
}

__global__ void large_shared_kernel() {
  HEDDLE_SHARED(float, half_of_it, [6 * 1024]);
  HEDDLE_SHARED(float, too_much, [6 * 1024 + 1]);
  half_of_it[threadIdx.x] = 1;
  too_much[threadIdx.x] = 1;
}

TEST_CASE("static shared memory has a limit") {
  REQUIRE_THAT(
      failure_of(large_shared_kernel, {.block = 32}),
      ContainsSubstring("too_much takes 24580 bytes beside 24576 in use, the limit is 49152"));
}

__global__ void misaligned_atomic_kernel(char* bytes) {
  atomicAdd(reinterpret_cast<int*>(bytes + 2), 1);
}

TEST_CASE("an atomic's address is a multiple of its size") {
  const MachineScope machine;
  alignas(16) static char bytes[16];
  REQUIRE_THAT(failure_of(misaligned_atomic_kernel, {}, bytes), ContainsSubstring("misaligned"));
}

__global__ void odd_copy_kernel() {
  HEDDLE_SHARED(char, bytes, [16]);
  cudasim::async_copy(bytes, bytes, 12, 0);
}

TEST_CASE("an asynchronous copy has a size that devices have") {
  REQUIRE_THAT(failure_of(odd_copy_kernel, {}), ContainsSubstring("4, 8 or 16 bytes"));
}

TEST_CASE("a device's calls throw on the host") {
  REQUIRE_THROWS_WITH(cudasim::warp_ballot(1, true), ContainsSubstring("on the host"));
  REQUIRE_THROWS_WITH(cudasim::dynamic_shared(), ContainsSubstring("on the host"));
  REQUIRE_FALSE(cudasim::in_kernel());
}

}  // namespace
}  // namespace heddle::test
