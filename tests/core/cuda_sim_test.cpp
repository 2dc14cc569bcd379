// What only cudasim can show: faults on demand, late and random schedules, several devices.
#include <cuda_runtime.h>

#include <cstdlib>
#include <string>
#include <thread>

#include <cudasim/control.h>
#include "heddle/core/buffer.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/event.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kFirst{DeviceType::kCuda, 0};
const Device kSecond{DeviceType::kCuda, 1};

/// Puts the schedule back that the program began with.
class ScheduleScope {
 public:
  explicit ScheduleScope(cudasim::Schedule schedule, uint64_t seed = 1) {
    cudasim::set_schedule(schedule, seed);
  }
  ~ScheduleScope() {
    const cudasim::Machine machine = cudasim::machine();
    cudasim::set_schedule(machine.schedule, machine.seed);
  }
};

void write(const Buffer& buffer, float value) {
  const std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float), value);
  memory::copy(buffer.data(), buffer.device(), values.data(), Device::cpu(), buffer.bytes());
}

/// ST-1: A is freed while s2 still has to copy from it, and B takes its place.
std::vector<float> reuse(const Stream& s1, const Stream& s2, bool recorded) {
  constexpr int64_t kBytes = 1 << 12;
  const Buffer result(kBytes, s2);
  {
    const StreamGuard on_s1(s1);
    const Buffer a(kBytes, s1);
    write(a, 1.0F);
    s2.wait(s1);
    const StreamGuard on_s2(s2);
    memory::copy(result.data(), kFirst, a.data(), kFirst, kBytes);
    if (recorded) a.record_use(s2);
  }
  const StreamGuard on_s1(s1);
  const Buffer b(kBytes, s1);
  write(b, 7.0F);
  s1.synchronize();
  const StreamGuard on_s2(s2);
  std::vector<float> values(kBytes / sizeof(float));
  memory::copy(values.data(), Device::cpu(), result.data(), kFirst, kBytes);
  return values;
}

TEST_CASE("ST-1: freeing waits for recorded uses, whenever work runs", "[device][sim]") {
  const Stream s1(kFirst), s2(kFirst);
  const std::vector<float> ones(1024, 1.0F);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    const ScheduleScope random(cudasim::Schedule::kRandom, seed);
    CHECK(reuse(s1, s2, true) == ones);
  }
  const ScheduleScope latest(cudasim::Schedule::kLatest);
  CHECK(reuse(s1, s2, true) == ones);
}

TEST_CASE("Copies between devices hold their order, whenever work runs", "[device][sim]") {
  REQUIRE(Device::all().size() > 2);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const ScheduleScope random(cudasim::Schedule::kRandom, seed);
    Tensor x = full({3, 4}, 1.0, DType::kFloat32, kFirst);
    const Tensor y = to(transpose(x, 0, 1), kSecond);
    fill_(x, 9.0);  // after the copy, though nobody waited for it
    const Tensor z = add(y, 1.0);
    x = {};
    CHECK(y.device() == kSecond);
    CHECK(y.to_vector<float>() == std::vector<float>(12, 1.0F));
    CHECK(to(z, kFirst).to_vector<float>() == std::vector<float>(12, 2.0F));
  }
}

TEST_CASE("A new thread's memory appears on the device it names", "[device][sim]") {
  REQUIRE(Device::all().size() > 2);
  const int64_t first = memory::stats(kFirst).in_use;
  const int64_t second = memory::stats(kSecond).in_use;
  Tensor made;
  std::thread([&] { made = zeros({1000}, DType::kFloat32, kSecond); }).join();
  CHECK(memory::stats(kFirst).in_use == first);
  CHECK(memory::stats(kSecond).in_use == second + 4000);
  int current = -1;
  HEDDLE_CUDA_CHECK(cudaGetDevice(&current));
  CHECK(current == 0);
}

TEST_CASE("Tensors of two CUDA devices in one op are refused", "[device][sim]") {
  const Tensor a = zeros({2}, DType::kFloat32, kFirst), b = zeros({2}, DType::kFloat32, kSecond);
  CHECK_THROWS_WITH(add(a, b), ContainsSubstring("cuda:0") && ContainsSubstring("cuda:1"));
}

TEST_CASE("BU-2: a launch that fails names kernel, device and architectures", "[device][sim]") {
  CHECK_THROWS_WITH(
      HEDDLE_CUDA_CHECK_LAUNCH(cudaErrorNoKernelImageForDevice, "relu_kernel", nullptr),
      ContainsSubstring("relu_kernel: cudaErrorNoKernelImageForDevice") &&
          ContainsSubstring("the device has compute capability 8.0, this heddle was built for"));
  CHECK_THROWS_WITH(HEDDLE_CUDA_CHECK_LAUNCH(cudaErrorInvalidConfiguration, "wide_kernel", nullptr),
                    ContainsSubstring("wide_kernel: cudaErrorInvalidConfiguration"));
}

void faulty_kernel(int device) { cudasim::set_sticky_error(device, cudaErrorIllegalAddress); }
void sound_kernel(int) {}

void start(const char* name, void (*kernel)(int), StreamRef stream, unsigned n_threads = 1) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(n_threads);
  config.stream = stream.get();
  HEDDLE_CUDA_CHECK_LAUNCH(cudaLaunchKernelEx(&config, kernel, kFirst.index), name, stream.get());
}

TEST_CASE("BU-2: a block that no device takes never starts", "[device][sim]") {
  const Stream stream(kFirst);
  CHECK_THROWS_WITH(start("sound_kernel", sound_kernel, stream, 2048),
                    ContainsSubstring("sound_kernel: cudaErrorInvalidConfiguration") &&
                        ContainsSubstring("(device cuda:0)"));
  CHECK_NOTHROW(start("sound_kernel", sound_kernel, stream, 1024));
  CHECK_NOTHROW(stream.synchronize());
}

// ctest runs it with HEDDLE_SYNC=1 too.
TEST_CASE("A kernel's fault is named at its launch where launches are waited for",
          "[device][sim][sync]") {
  const char* sync = std::getenv("HEDDLE_SYNC");
  const ScheduleScope latest(cudasim::Schedule::kLatest);
  const Stream stream(kFirst);
  if (sync != nullptr && std::string(sync) == "1") {
    start("sound_kernel", sound_kernel, stream);
    CHECK_THROWS_WITH(start("faulty_kernel", faulty_kernel, stream),
                      ContainsSubstring("faulty_kernel: cudaErrorIllegalAddress") &&
                          ContainsSubstring("(device cuda:0)"));
  } else {
    CHECK_NOTHROW(start("faulty_kernel", faulty_kernel, stream));
    CHECK_NOTHROW(start("sound_kernel", sound_kernel, stream));
    CHECK_THROWS_WITH(stream.synchronize(), ContainsSubstring("cudaErrorIllegalAddress"));
  }
  cudasim::set_sticky_error(kFirst.index, cudaSuccess);
}

TEST_CASE("Failed calls name call, error, device and place", "[device][sim]") {
  const DeviceGuard guard(kSecond);
  try {
    HEDDLE_CUDA_CHECK(cudaSetDevice(77));
    FAIL("nothing was thrown");
  } catch (const CudaError& error) {
    CHECK(error.name() == "cudaErrorInvalidDevice");
    CHECK_THAT(error.what(), ContainsSubstring("cudaSetDevice(77): cudaErrorInvalidDevice"));
    CHECK_THAT(error.what(), ContainsSubstring("(device cuda:1) at "));
    CHECK_THAT(error.what(), ContainsSubstring("cuda_sim_test.cpp:"));
  }
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A device that is full says so, and recovers", "[device][sim]") {
  memory::release_cached(kSecond);
  const auto limit = static_cast<size_t>(memory::stats(kSecond).held) + (size_t{64} << 20);
  cudasim::set_memory_limit(kSecond.index, limit);
  {
    std::vector<Tensor> kept;
    auto fill_up = [&] {
      for (int i = 0; i < 100; ++i) kept.push_back(zeros({1 << 20}, DType::kFloat32, kSecond));
    };
    CHECK_THROWS_AS(fill_up(), OutOfMemory);
    CHECK(kept.size() >= 10);
  }
  CHECK_NOTHROW(zeros({1 << 23}, DType::kFloat32, kSecond));  // what was freed serves other sizes
  cudasim::set_memory_limit(kSecond.index, size_t{40} << 30);
}

}  // namespace
}  // namespace heddle
