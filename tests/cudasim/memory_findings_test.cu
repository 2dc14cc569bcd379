// Planted faults of memory: each is found once, with kernel, thread, line and allocation, and where
// the access cannot be performed the launch fails and the program goes on.
#include "heddle/tests/cudasim/faults.h"

#include "heddle/kernels/device/shared.cuh"

namespace heddle::test {
namespace {

int line(const std::string& text) { return line_with("memory_findings_test.cu", text); }

__global__ void scale_kernel(float* y, const float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) y[i] = 2 * x[i];  // line: one too many
}

TEST_CASE("a read past the end of an allocation ends the launch") {
  DeviceArray<float> x(256);
  DeviceArray<float> y(256);
  Expected expected;
  run_failing(scale_kernel, {.grid = 3, .block = 128}, y.data(), x.data(), 256);
  const Finding finding = expected.only(FindingKind::kOutOfBounds);
  REQUIRE(finding.kernel == "test::scale_kernel");
  REQUIRE(finding.access.what == "read of 4 bytes");
  REQUIRE(finding.access.block == Triple{2, 0, 0});
  REQUIRE(finding.access.thread == Triple{0, 0, 0});
  REQUIRE(finding.access.line == line("one too many"));
  REQUIRE_THAT(finding.access.file, ContainsSubstring("memory_findings_test.cu"));
  REQUIRE_THAT(finding.memory, ContainsSubstring("just past the end of allocation"));
  REQUIRE_THAT(finding.memory, ContainsSubstring("1024 bytes of device 0"));
  REQUIRE_THAT(finding.memory, ContainsSubstring("allocated at"));
}

__global__ void write_at_kernel(char* y, int64_t offset) {
  y[offset] = 1;  // line: a byte somewhere
}

TEST_CASE("bytes before and far past an allocation are out of bounds") {
  const int64_t offset = GENERATE(-1, -4096, 10, 4095, 4096, 3 * 4096);
  CAPTURE(offset);
  DeviceArray<char> y(10);
  Expected expected;
  run_failing(write_at_kernel, {}, y.data(), offset);
  const Finding finding = expected.only(FindingKind::kOutOfBounds);
  REQUIRE(finding.access.line == line("a byte somewhere"));
  REQUIRE(finding.access.what == "write of 1 bytes");
}

TEST_CASE("the last byte of an allocation is in bounds") {
  DeviceArray<char> y(10);
  Expected expected;
  run(write_at_kernel, {}, y.data(), int64_t{9});
  expected.none();
}

TEST_CASE("a null pointer is out of bounds") {
  Expected expected;
  run_failing(write_at_kernel, {}, static_cast<char*>(nullptr), int64_t{8});
  REQUIRE(expected.only(FindingKind::kOutOfBounds).memory == "a null pointer");
}

TEST_CASE("freed memory is found as such") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  REQUIRE(cudaFree(memory) == cudaSuccess);
  Expected expected;
  run_failing(write_at_kernel, {}, static_cast<char*>(memory), int64_t{40});
  const Finding finding = expected.only(FindingKind::kUseAfterFree);
  REQUIRE_THAT(finding.memory, ContainsSubstring("at byte 40 of freed allocation"));
}

TEST_CASE("a pointer to the host's memory is found") {
  std::vector<char> host(64);
  Expected expected;
  run_failing(write_at_kernel, {}, host.data(), int64_t{0});
  REQUIRE(expected.only(FindingKind::kHostPointer).access.line == line("a byte somewhere"));
}

__global__ void sum_pairs_kernel(float* y, const float* x) {
  y[threadIdx.x] = x[2 * threadIdx.x] + x[2 * threadIdx.x + 1];  // line: reads pairs
}

TEST_CASE("memory that nobody has written is found when it is read") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 64 * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemset(memory, 0, 63 * sizeof(float)) == cudaSuccess);
  DeviceArray<float> y(32);
  Expected expected;
  run(sum_pairs_kernel, {.block = 32}, y.data(), static_cast<const float*>(memory));
  const Finding finding = expected.only(FindingKind::kUninitialisedRead);
  REQUIRE(finding.access.thread == Triple{31, 0, 0});
  REQUIRE(finding.access.line == line("reads pairs"));
  REQUIRE_THAT(finding.memory, ContainsSubstring("at byte 252 of allocation"));
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("what a kernel wrote or a copy brought may be read") {
  void* a = nullptr;
  void* b = nullptr;
  REQUIRE(cudaMalloc(&a, 64 * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 64 * sizeof(float)) == cudaSuccess);
  DeviceArray<float> x(128);
  Expected expected;
  run(sum_pairs_kernel, {.block = 64}, static_cast<float*>(a), static_cast<const float*>(x.data()));
  REQUIRE(cudaMemcpy(b, a, 64 * sizeof(float), cudaMemcpyDeviceToDevice) == cudaSuccess);
  run(sum_pairs_kernel, {.block = 32}, static_cast<float*>(a), static_cast<const float*>(b));
  expected.none();
  REQUIRE(cudaFree(a) == cudaSuccess);
  REQUIRE(cudaFree(b) == cudaSuccess);
}

TEST_CASE("a copy of memory never written is no write") {
  void* a = nullptr;
  void* b = nullptr;
  REQUIRE(cudaMalloc(&a, 64) == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 64) == cudaSuccess);
  REQUIRE(cudaMemset(b, 0, 64) == cudaSuccess);
  REQUIRE(cudaMemcpy(b, a, 8, cudaMemcpyDeviceToDevice) == cudaSuccess);
  DeviceArray<float> y(1);
  Expected expected;
  run(sum_pairs_kernel, {}, y.data(), static_cast<const float*>(b));
  REQUIRE(expected.all().size() >= 1);
  REQUIRE(expected.all()[0].kind == FindingKind::kUninitialisedRead);
  REQUIRE(cudaFree(a) == cudaSuccess);
  REQUIRE(cudaFree(b) == cudaSuccess);
}

__global__ void pair_kernel(double* y, const char* x, int offset) {
  *y = *reinterpret_cast<const double*>(x + offset);  // line: a double at any address
}

TEST_CASE("an access at an address that its size does not divide ends the launch") {
  DeviceArray<char> x(64);
  DeviceArray<double> y(1);
  Expected expected;
  run_failing(pair_kernel, {}, y.data(), x.data(), 4);
  const Finding finding = expected.only(FindingKind::kMisaligned);
  REQUIRE(finding.access.line == line("a double at any address"));
}

__global__ void vector_kernel(const float* x, int offset) {
  cudasim::report_access(x + offset, 16, cudasim::Access::kRead);
}

TEST_CASE("a helper's vector access must be aligned to all of its width") {
  DeviceArray<float> x(64);
  Expected expected;
  run(vector_kernel, {}, x.data(), 4);
  expected.none();
  run_failing(vector_kernel, {}, x.data(), 2);
  static_cast<void>(expected.only(FindingKind::kMisaligned));
}

__global__ void shared_past_kernel(float* y, int at) {
  HEDDLE_SHARED(float, tile, [32]);
  tile[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[at];  // line: a tile's place
}

TEST_CASE("shared memory has bounds too") {
  const int at = GENERATE(-1, 32, 40);
  DeviceArray<float> y(32);
  Expected expected;
  run_failing(shared_past_kernel, {.block = 32}, y.data(), at);
  const Finding finding = expected.only(FindingKind::kOutOfBounds);
  REQUIRE(finding.access.line == line("a tile's place"));
  REQUIRE_THAT(finding.memory, ContainsSubstring("shared variable tile (128 bytes)"));
}

__global__ void dynamic_past_kernel(float* y) {
  float* tile = dynamic_shared<float>();
  tile[threadIdx.x] = 1;  // line: dynamic
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}

TEST_CASE("dynamic shared memory ends where the launch said") {
  DeviceArray<float> y(32);
  Expected expected;
  run(dynamic_past_kernel, {.block = 32, .shared_bytes = 128}, y.data());
  expected.none();
  run_failing(dynamic_past_kernel, {.block = 32, .shared_bytes = 124}, y.data());
  const Finding finding = expected.only(FindingKind::kOutOfBounds);
  REQUIRE(finding.access.thread == Triple{31, 0, 0});
  REQUIRE_THAT(finding.memory, ContainsSubstring("the dynamic shared memory (124 bytes)"));
}

__global__ void half_filled_kernel(float* y) {
  HEDDLE_SHARED(float, tile, [64]);
  if (threadIdx.x < 63) tile[threadIdx.x] = 1;
  __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x];  // line: of a tile
}

TEST_CASE("shared memory holds nothing at a block's start") {
  DeviceArray<float> y(128);
  Expected expected;
  run(half_filled_kernel, {.grid = 2, .block = 64}, y.data());
  const Finding finding = expected.only(FindingKind::kUninitialisedRead);
  REQUIRE(finding.access.thread == Triple{63, 0, 0});
  REQUIRE(finding.access.line == line("of a tile"));
  REQUIRE(finding.count == 2);
}

__global__ void early_exit_kernel(float* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  __syncthreads();  // line: a barrier for some
  y[threadIdx.x] = 1;
}

TEST_CASE("a barrier that some threads never reach is found") {
  DeviceArray<float> y(64);
  Expected expected;
  static_cast<void>(try_run(early_exit_kernel, {.block = 64}, y.data(), 40));
  forget_errors();
  const Finding finding = expected.only(FindingKind::kDivergentBarrier);
  REQUIRE(finding.access.line == line("a barrier for some"));
  REQUIRE(finding.access.thread == Triple{0, 0, 0});
  REQUIRE(finding.other.has_value());
  REQUIRE(finding.other->thread == Triple{40, 0, 0});
}

__global__ void two_barriers_kernel(float* y) {
  if (threadIdx.x < 32) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } else {
    y[threadIdx.x] = 2;
    __syncthreads();
  }
}

TEST_CASE("threads that meet at different barriers are found") {
  DeviceArray<float> y(64);
  Expected expected;
  run(two_barriers_kernel, {.block = 64}, y.data());
  static_cast<void>(expected.only(FindingKind::kDivergentBarrier));
}

TEST_CASE("equal findings are counted, others of a launch are limited") {
  DeviceArray<float> y(32);
  std::vector<float> host(64);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 64 * sizeof(float)) == cudaSuccess);
  Expected expected;
  run(sum_pairs_kernel, {.block = 32}, y.data(), static_cast<const float*>(memory));
  const auto found = expected.all();
  REQUIRE(found.size() <= 2);  // the two reads of one line
  REQUIRE(found[0].count >= 32);
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("no check looks when checks are off") {
  DeviceArray<float> y(64);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 128 * sizeof(float)) == cudaSuccess);
  Expected expected;
  {
    ChecksScope off(Checks::kOff);
    run(sum_pairs_kernel, {.block = 32}, y.data(), static_cast<const float*>(memory));
    run(sum_pairs_kernel, {.block = 32}, static_cast<float*>(memory),
        static_cast<const float*>(y.data()));
  }
  expected.none();
  // What ran unseen may have written anything.
  run(sum_pairs_kernel, {.block = 32}, y.data(), static_cast<const float*>(memory));
  expected.none();
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

constexpr float kTable[8] = {1, 2, 3, 5, 8, 13, 21, 34};

__global__ void table_kernel(float* y, int n) {
  float local[16];
  for (int i = 0; i < n; ++i) local[i] = kTable[i % 8];
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += local[(i * 7 + static_cast<int>(threadIdx.x)) % n];
  y[threadIdx.x] = sum;
}

TEST_CASE("a thread's own arrays and the program's constants are its own business") {
  DeviceArray<float> y(32);
  Expected expected;
  run(table_kernel, {.block = 32}, y.data(), 16);
  expected.none();
  REQUIRE(y.values()[5] == 174);
}

}  // namespace
}  // namespace heddle::test
