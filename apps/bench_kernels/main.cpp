#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/report.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/program.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::bench {
namespace {

struct Options {
  std::string filter, json, picture, isa = "best";
  int64_t rounds = 7, threads = 0, batch = 64;
  bool list = false;
};

bool parse(const std::vector<std::string>& arguments, Options& o) {
  apps::FlagSet flags(
      "bench_kernels",
      "Times heddle's kernels beside the vendor's library: oneDNN on the CPU. Sides "
      "run in turn; medians of rounds are compared.");
  flags.text("--filter", &o.filter, "TEXT", "Only cases whose name contains this");
  flags.integer("--batch-size", &o.batch, 1, 4096, "Images in a batch; other sizes follow it");
  flags.integer("--rounds", &o.rounds, 5, 1000, "Rounds of each case");
  flags.integer("--threads", &o.threads, 0, 1024, "Threads of every side; 0: all processors");
  flags.choice("--isa", &o.isa, {"best", "baseline", "avx2", "avx512"},
               "Instruction set of every side");
  flags.text("--json", &o.json, "FILE", "Write the figures there (-: to standard output)");
  flags.text("--roofline", &o.picture, "FILE", "Draw the cases under their roofs there, as SVG");
  flags.toggle("--list", &o.list, "Print the names of the cases and stop");
  return flags.parse(arguments, HEDDLE_VERSION) == apps::ParseResult::kRun;
}

std::vector<Case> selected_cases(const Options& options) {
  std::vector<Case> selected;
  for (const Case& c : all_cases({options.batch}))
    if (c.name.find(options.filter) != std::string::npos) selected.push_back(c);
  if (selected.empty())
    throw UsageError(
        fmt::format("--filter: no case's name contains \"{}\", see --list", options.filter));
  return selected;
}

void write_files(const Options& options, const std::vector<CaseResult>& results,
                 const Peaks& peaks) {
  if (!options.json.empty()) {
    nlohmann::ordered_json cases = nlohmann::ordered_json::array();
    for (const CaseResult& result : results) cases.push_back(to_json(result));
    write_json(options.json, {{"machine", describe_machine()},
                              {"peak_float32_flops", peaks.float32},
                              {"peak_bfloat16_flops", peaks.bfloat16},
                              {"triad_bytes_per_second", peaks.bandwidth},
                              {"cases", std::move(cases)}});
  }
  if (options.picture.empty()) return;
  std::ofstream file(options.picture);
  file << roofline_svg(
      results, peaks,
      fmt::format("{}, {} threads", describe_machine()["processor"].get<std::string>(),
                  num_threads()));
  file.close();
  HEDDLE_CHECK(!file.fail(), "--roofline: cannot write \"{}\"", options.picture);
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const std::vector<Case> cases = selected_cases(options);
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
  std::vector<CaseResult> results;
  for (const Case& c : cases) {
    results.push_back(run_case(c, Device::cpu(), {.count = options.rounds}, host_seconds, peaks));
    print_case(results.back());
  }
  write_files(options, results, peaks);
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_kernels", [&] {
    return heddle::bench::run({argv + 1, argv + argc});
  });
}
