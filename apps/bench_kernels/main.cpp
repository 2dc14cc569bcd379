#include <fmt/format.h>

#include <cstdio>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/program.h"
#include "heddle/core/memory.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::bench {
namespace {

struct Options {
  std::string filter, json, isa = "best";
  int64_t rounds = 7, threads = 0;
  bool list = false;
};

bool parse(const std::vector<std::string>& arguments, Options& o) {
  apps::FlagSet flags("bench_kernels",
                      "Times heddle's CPU kernels beside oneDNN's. Sides run in turn; medians of "
                      "rounds are compared.");
  flags.text("--filter", &o.filter, "TEXT", "Only cases whose name contains this");
  flags.integer("--rounds", &o.rounds, 5, 1000, "Rounds of each case");
  flags.integer("--threads", &o.threads, 0, 1024, "Threads of every side; 0: all processors");
  flags.choice("--isa", &o.isa, {"best", "baseline", "avx2", "avx512"},
               "Instruction set of every side");
  flags.text("--json", &o.json, "FILE", "Write the figures there (-: to standard output)");
  flags.toggle("--list", &o.list, "Print the names of the cases and stop");
  return flags.parse(arguments, HEDDLE_VERSION) == apps::ParseResult::kRun;
}

std::vector<Case> selected_cases(const std::string& filter) {
  std::vector<Case> selected;
  for (const auto& cases : {conv2d_cases(), linear_cases(), image_cases(), memory_cases()})
    for (const Case& c : cases)
      if (c.name.find(filter) != std::string::npos) selected.push_back(c);
  if (selected.empty())
    throw UsageError(fmt::format("--filter: no case's name contains \"{}\", see --list", filter));
  return selected;
}

/// The share of the roof that the case's work meets in `seconds`.
double share_of_peak(const Case& c, double seconds, const Peaks& peaks) {
  if (c.flops == 0.0) return c.bytes / seconds / peaks.bandwidth;
  const bool dot_products = c.dtype == DType::kBFloat16 && peaks.bfloat16 > 0.0;
  const double compute = c.flops / (dot_products ? peaks.bfloat16 : peaks.float32);
  return std::max(compute, c.bytes / peaks.bandwidth) / seconds;
}

std::string rate(const Case& c, double seconds) {
  if (c.flops > 0.0) return fmt::format("{:.1f} GFLOP/s", c.flops / seconds * 1e-9);
  return fmt::format("{:.1f} GB/s", c.bytes / seconds * 1e-9);
}

bool is_raw(const Timing& timing) { return timing.side.rfind("oneDNN", 0) == 0; }

const Timing* best_raw(const std::vector<Timing>& timings) {
  const Timing* best = nullptr;
  for (const Timing& timing : timings)
    if (is_raw(timing) && (best == nullptr || timing.median() < best->median())) best = &timing;
  return best;
}

nlohmann::ordered_json run_case(const Case& c, const Rounds& rounds, const Peaks& peaks) {
  const std::vector<Timing> timings = measure(c.prepare(), rounds);
  const Timing* const best = best_raw(timings);
  nlohmann::ordered_json sides = nlohmann::ordered_json::array();
  Table table({c.name, "ms", "", "of roof", "spread", "vs best oneDNN"});
  for (const Timing& timing : timings) {
    const double seconds = timing.median();
    const double share = share_of_peak(c, seconds, peaks);
    table.row({"  " + timing.side, fmt::format("{:.3f}", seconds * 1e3), rate(c, seconds),
               fmt::format("{:.0f}%", share * 100.0),
               fmt::format("{:.0f}%", timing.spread() * 100.0),
               best == nullptr ? "" : fmt::format("{:.2f}", speedup(timing, *best))});
    nlohmann::ordered_json side = to_json(timing);
    side["share_of_roof"] = share;
    if (best != nullptr) side["speedup_over_best_onednn"] = speedup(timing, *best);
    sides.push_back(std::move(side));
  }
  table.print();
  return {{"name", c.name}, {"flops", c.flops}, {"bytes", c.bytes}, {"sides", std::move(sides)}};
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const std::vector<Case> cases = selected_cases(options.filter);
  if (options.list) {
    for (const Case& c : cases) fmt::print("{}\n", c.name);
    return 0;
  }
  if (options.threads > 0) set_num_threads(static_cast<int>(options.threads));
  if (options.isa != "best") cpu::set_active_isa(cpu::parse_isa(options.isa));
  limit_onednn_to_active_isa();
  const Peaks peaks = measure_peaks();
  fmt::print("{}: {} threads, {}; roof: {:.0f} GFLOP/s float32, {:.0f} bfloat16, {:.1f} GB/s\n",
             describe_machine()["processor"].get<std::string>(), num_threads(),
             cpu::name_of(cpu::active_isa()), peaks.float32 * 1e-9, peaks.bfloat16 * 1e-9,
             peaks.bandwidth * 1e-9);
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Case& c : cases) results.push_back(run_case(c, {.count = options.rounds}, peaks));
  if (!options.json.empty())
    write_json(options.json, {{"machine", describe_machine()},
                              {"peak_float32_flops", peaks.float32},
                              {"peak_bfloat16_flops", peaks.bfloat16},
                              {"triad_bytes_per_second", peaks.bandwidth},
                              {"cases", std::move(results)}});
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_kernels", [&] {
    return heddle::bench::run({argv + 1, argv + argc});
  });
}
