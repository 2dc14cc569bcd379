#include "heddle/apps/support/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "heddle/apps/support/output_file.h"
#include "heddle/core/error.h"
#include "heddle/core/version.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"

namespace heddle::bench {
namespace {

int64_t repeats_of(const Side& side, const Rounds& rounds, const Stopwatch& stopwatch) {
  side.run();
  const double once = std::min(stopwatch(side.run, 1), stopwatch(side.run, 1));
  return std::clamp<int64_t>(static_cast<int64_t>(rounds.sample_seconds / std::max(once, 1e-9)) + 1,
                             1, 100000);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

double Timing::median() const { return median_of(samples); }

double Timing::spread() const {
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const size_t cut = sorted.size() >= 5 ? 1 : 0;
  if (sorted.empty()) return 0.0;
  return (sorted[sorted.size() - 1 - cut] - sorted[cut]) / median();
}

double host_seconds(const std::function<void()>& run, int64_t repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeats; ++i) run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(repeats);
}

std::vector<Timing> measure(const std::vector<Side>& sides, const Rounds& rounds,
                            const Stopwatch& stopwatch) {
  std::vector<int64_t> repeats;
  std::vector<Timing> timings;
  for (const Side& side : sides) {
    repeats.push_back(repeats_of(side, rounds, stopwatch));
    timings.push_back({side.name, {}});
  }
  for (int64_t round = 0; round < rounds.count; ++round)
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(round)) % sides.size();
      timings[i].samples.push_back(stopwatch(sides[i].run, repeats[i]));
    }
  return timings;
}

double speedup(const Timing& timing, const Timing& reference) {
  std::vector<double> ratios;
  for (size_t i = 0; i < timing.samples.size() && i < reference.samples.size(); ++i)
    ratios.push_back(reference.samples[i] / timing.samples[i]);
  return median_of(ratios);
}

nlohmann::ordered_json to_json(const Timing& timing) {
  return {{"side", timing.side},
          {"median_seconds", timing.median()},
          {"spread", timing.spread()},
          {"samples_seconds", timing.samples}};
}

void Table::print() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

void write_json(const std::string& path, const nlohmann::ordered_json& value) {
  apps::write_output_file("--json", path, value.dump(2));
}

nlohmann::ordered_json describe_machine() {
  return {{"processor", processor_name()}, {"instruction_set", cpu::name_of(cpu::active_isa())},
          {"threads", num_threads()},      {"heddle", version()},
          {"compiler", __VERSION__},       {"onednn", built_with_onednn()}};
}

}  // namespace heddle::bench
