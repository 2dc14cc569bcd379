#include <fmt/format.h>

#include "heddle/apps/bench_kernels/run.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/apps/support/program.h"

namespace heddle::bench {
namespace {

bool parse(const std::vector<std::string>& arguments, Options& o) {
  apps::FlagSet flags(
      "bench_kernels",
      "Times heddle's kernels beside the vendor's library: oneDNN on the CPU, cuBLAS and cuDNN on "
      "a CUDA device. Sides run in turn; medians of rounds are compared. bench_kernels_sim prints "
      "cudasim's counts of memory traffic instead of times.");
  flags.text("--device", &o.device, "cpu|cuda:N", "Where the kernels run");
  flags.text("--filter", &o.filter, "TEXT", "Only cases whose name contains this");
  flags.integer("--batch-size", &o.batch, 0, 4096,
                "Images in a batch, other sizes follow it; 0: 64, or 1 where they are counted");
  flags.integer("--rounds", &o.rounds, 5, 1000, "Rounds of each case");
  flags.integer("--threads", &o.threads, 0, 1024, "Threads of every side; 0: all processors");
  flags.choice("--isa", &o.isa, {"best", "baseline", "avx2", "avx512"},
               "Instruction set of every side");
  flags.text("--json", &o.json, "FILE", "Write the figures there (-: to standard output)");
  flags.text("--roofline", &o.picture, "FILE", "Draw the cases under their roofs there, as SVG");
  flags.toggle("--list", &o.list, "Print the names of the cases and stop");
  if (flags.parse(arguments, HEDDLE_VERSION) == apps::ParseResult::kDone) return false;
  flags.only_beside("--list", {"--device", "--filter", "--batch-size"});
  flags.only_with({"--threads", "--isa"}, o.device == "cpu", "--device cpu");
  o.rounds_given = flags.given("--rounds");
  return true;
}

std::vector<Case> selected_cases(const Options& options, const Scale& scale) {
  std::vector<Case> selected;
  for (const Case& c : all_cases(scale))
    if (c.name.find(options.filter) != std::string::npos) selected.push_back(c);
  if (selected.empty())
    throw UsageError(
        fmt::format("--filter: no case's name contains \"{}\", see --list", options.filter));
  return selected;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const Device device = Device::parse(options.device);
  const std::vector<Case> cases = selected_cases(options, scale_for(device, options.batch));
  if (options.list) {
    for (const Case& c : cases) fmt::print("{}\n", c.name);
    return 0;
  }
  apps::check_output_file("--json", options.json);
  apps::check_output_file("--roofline", options.picture);
  run_cases(options, device, cases);
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_kernels", [&] {
    return heddle::bench::run({argv + 1, argv + argc});
  });
}
