#include "heddle/apps/bench_kernels/run.h"

#include <fmt/format.h>

#include "heddle/apps/bench_kernels/on_cuda.h"
#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/report.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/core/flavour.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::bench {
namespace {

/// Where the cases run: the clock, what it can do at most, and its name.
struct Bench {
  Device device;
  std::string name;
  Stopwatch stopwatch = host_seconds;
  Peaks peaks;
};

Bench cpu_bench(const Options& options) {
  if (options.threads > 0) set_num_threads(static_cast<int>(options.threads));
  if (options.isa != "best") cpu::set_active_isa(cpu::parse_isa(options.isa));
  limit_onednn_to_active_isa();
  return {
      Device::cpu(),
      fmt::format("{}, {} thread{}, {}", describe_machine()["processor"].get<std::string>(),
                  num_threads(), num_threads() == 1 ? "" : "s", cpu::name_of(cpu::active_isa())),
      host_seconds, measure_peaks()};
}

void write_files(const Options& options, const Bench& bench,
                 const std::vector<CaseResult>& results) {
  const Peaks& peaks = bench.peaks;
  if (!options.json.empty()) {
    nlohmann::ordered_json cases = nlohmann::ordered_json::array();
    for (const CaseResult& result : results) cases.push_back(to_json(result));
    write_json(options.json, {{"machine", describe_machine()},
                              {"device", bench.name},
                              {"peak_float32_flops", peaks.float32},
                              {"peak_16_bit_flops", peaks.bfloat16},
                              {"peak_bytes_per_second", peaks.bandwidth},
                              {"cases", std::move(cases)}});
  }
  if (options.picture.empty()) return;
  apps::write_output_file("--roofline", options.picture, roofline_svg(results, peaks, bench.name));
}

void time_cases(const Options& options, const Bench& bench, const std::vector<Case>& cases) {
  fmt::print("{}; roof: {:.0f} GFLOP/s float32, {:.0f} in 16 bits, {:.1f} GB/s\n", bench.name,
             bench.peaks.float32 * 1e-9, bench.peaks.bfloat16 * 1e-9, bench.peaks.bandwidth * 1e-9);
  std::vector<CaseResult> results;
  for (const Case& c : cases) {
    results.push_back(
        run_case(c, bench.device, {.count = options.rounds}, bench.stopwatch, bench.peaks));
    print_case(results.back());
  }
  write_files(options, bench, results);
}

#ifdef HEDDLE_WITH_CUDA
void count_cases(const Options& options, Device device, const std::vector<Case>& cases) {
  if (!options.picture.empty())
    throw UsageError("--roofline: a simulated device has no times to draw");
  if (options.rounds_given)
    throw UsageError("--rounds: what a simulated device counts is the same each time");
  fmt::print("cudasim, {}: what the kernels ask of memory. Counts, not times.\n",
             describe_device(device));
  nlohmann::ordered_json counts = nlohmann::ordered_json::array();
  for (const Case& c : cases) counts.push_back(count_case(c, device));
  if (!options.json.empty())
    write_json(options.json,
               {{"device", "cudasim, " + describe_device(device)}, {"counts", std::move(counts)}});
}

void run_on_cuda(const Options& options, Device device, const std::vector<Case>& cases) {
  if (devices_are_simulated()) return count_cases(options, device, cases);
  time_cases(options,
             {device, describe_device(device), cuda_stopwatch(device),
              measure_cuda_peaks(device, options.rounds)},
             cases);
}
#else
void run_on_cuda(const Options&, Device, const std::vector<Case>&) {
  fail("bench_kernels: built without CUDA");  // Device::parse has said so before
}
#endif

}  // namespace

Scale scale_for(Device device, int64_t batch) {
  Scale scale;
  if (device.type == DeviceType::kCuda) {
    scale.dtypes.push_back(DType::kFloat16);
#ifdef HEDDLE_WITH_CUDA
    if (devices_are_simulated()) scale.batch = 1;
#endif
  }
  if (batch > 0) scale.batch = batch;
  return scale;
}

void run_cases(const Options& options, Device device, const std::vector<Case>& cases) {
  if (device.type == DeviceType::kCuda) return run_on_cuda(options, device, cases);
  time_cases(options, cpu_bench(options), cases);
}

}  // namespace heddle::bench
