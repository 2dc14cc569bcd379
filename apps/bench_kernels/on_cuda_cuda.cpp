#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>

#include "heddle/apps/bench_kernels/on_cuda.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/event.h"
#include "heddle/core/stream.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/fill.h"
#ifdef __CUDASIM__
#include <cudasim/profile.h>
#endif

namespace heddle::bench {
namespace {

cudaDeviceProp properties_of(Device device) {
  cudaDeviceProp properties;
  HEDDLE_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return properties;
}

View flat(const Tensor& x) { return {x.raw_data(), x.dtype(), {x.numel()}, {1}}; }

double best_of(const Stopwatch& stopwatch, const std::function<void()>& run, int64_t rounds) {
  double best = stopwatch(run, 1);
  for (int64_t round = 1; round < rounds; ++round) best = std::min(best, stopwatch(run, 1));
  return best;
}

}  // namespace

std::string describe_device(Device device) {
  const cudaDeviceProp properties = properties_of(device);
  return fmt::format("{}, {} multiprocessors, compute capability {}.{}", properties.name,
                     properties.multiProcessorCount, properties.major, properties.minor);
}

Stopwatch cuda_stopwatch(Device device) {
  const int64_t floats = std::max<int64_t>(properties_of(device).l2CacheSize, 1 << 20) / 2;
  const Tensor cache =
      Tensor::empty({floats}, DType::kFloat32, MemoryFormat::kContiguous, device);  // 2 caches
  return [device, cache](const std::function<void()>& run, int64_t repeats) {
    const StreamRef stream = current_stream(device);
    double seconds = 0.0;
    for (int64_t i = 0; i < repeats; ++i) {
      HEDDLE_DISPATCH(device, fill, {flat(cache), 1.0});
      TimedEvent begin(device), end(device);
      begin.record(stream);
      run();
      end.record(stream);
      seconds += (end - begin).count();
    }
    return seconds / static_cast<double>(repeats);
  };
}

Peaks measure_cuda_peaks(Device device, int64_t rounds) {
  const Stopwatch stopwatch = cuda_stopwatch(device);
  const int64_t n = int64_t{1} << 26;
  const Tensor from = Tensor::empty({n}, DType::kFloat32, MemoryFormat::kContiguous, device);
  const Tensor to = Tensor::empty_like(from);
  HEDDLE_DISPATCH(device, fill, {flat(from), 1.0});
  const auto copy = [&] { HEDDLE_DISPATCH(device, copy, {flat(to), flat(from)}); };
  Peaks peaks;
  peaks.bandwidth = 2.0 * static_cast<double>(n) * sizeof(float) / best_of(stopwatch, copy, rounds);
  for (const Case& c : product_cases({.batch = 256})) {
    if (c.name.rfind("matmul", 0) != 0) continue;
    const Prepared prepared = c.prepare({device});
    for (const Side& side : prepared.sides) {
      double& peak = c.dtype == DType::kFloat32 ? peaks.float32 : peaks.bfloat16;
      peak = std::max(peak, c.flops / best_of(stopwatch, side.run, rounds));
    }
  }
  return peaks;
}

#ifdef __CUDASIM__
namespace {

/// A kernel's name as a table can hold it: template arguments make some very long.
std::string short_name(const std::string& name) {
  constexpr size_t kMost = 60;
  return name.size() <= kMost ? name : name.substr(0, kMost - 3) + "...";
}

void add_row(const cudasim::KernelProfile& k, int64_t conflicts, Table& table) {
  using cudasim::AccessClass;
  table.row({"  " + short_name(k.kernel), std::to_string(k.blocks), std::to_string(k.threads),
             fmt::format("{:.2f}", k.of(AccessClass::kGlobalLoad).sectors_per_request()),
             fmt::format("{:.2f}", k.load_excess()),
             fmt::format("{:.2f}", k.of(AccessClass::kGlobalStore).sectors_per_request()),
             fmt::format("{:.2f}", k.store_excess()), std::to_string(conflicts),
             std::to_string(k.barriers)});
}

}  // namespace

bool devices_are_simulated() { return true; }

nlohmann::ordered_json count_case(const Case& c, Device device) {
  using cudasim::AccessClass;
  const std::vector<double> reference = reference_of(c);
  const Prepared prepared = c.prepare({device});
  const Side& native = prepared.sides.front();
  const double error = max_error(prepared, native, reference);
  HEDDLE_CUDA_CHECK(cudaDeviceSynchronize());
  const cudasim::Profile profile;
  native.run();
  HEDDLE_CUDA_CHECK(cudaDeviceSynchronize());
  Table table({c.name, "blocks", "threads", "sectors a load", "over least", "a store", "over least",
               "bank conflicts", "barriers"});
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const cudasim::KernelProfile& k : profile.kernels()) {
    const int64_t conflicts =
        k.of(AccessClass::kSharedLoad).conflicts + k.of(AccessClass::kSharedStore).conflicts;
    add_row(k, conflicts, table);
    kernels.push_back({{"kernel", k.kernel},
                       {"launches", k.launches},
                       {"blocks", k.blocks},
                       {"threads", k.threads},
                       {"load_sectors", k.of(AccessClass::kGlobalLoad).sectors},
                       {"load_sectors_over_least", k.load_excess()},
                       {"store_sectors", k.of(AccessClass::kGlobalStore).sectors},
                       {"store_sectors_over_least", k.store_excess()},
                       {"bank_conflicts", conflicts},
                       {"barriers", k.barriers}});
  }
  table.print();
  nlohmann::ordered_json result{{"name", c.name}, {"kernels", std::move(kernels)}};
  if (error >= 0.0) {
    fmt::print("  max error {:.1e}\n", error);
    result["max_error"] = error;
  }
  return result;
}
#else
bool devices_are_simulated() { return false; }

nlohmann::ordered_json count_case(const Case&, Device) {
  fail("bench_kernels: real devices have no counters here; bench_kernels_sim counts");
}
#endif

}  // namespace heddle::bench
