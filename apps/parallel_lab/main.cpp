// A laboratory of data parallelism: one training step over several replicas, as a timeline.
#include <iostream>

#include "heddle/apps/parallel_lab/options.h"
#include "heddle/apps/parallel_lab/picture.h"
#include "heddle/apps/parallel_lab/report.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/apps/support/program.h"

namespace heddle::lab {
namespace {

int run(const std::vector<std::string>& arguments) {
  Options options;
  apps::FlagSet flags("parallel_lab",
                      "Simulates one data-parallel training step over several replicas and draws "
                      "what each computes, copies and waits for. All times are simulated.");
  add_flags(flags, options);
  if (flags.parse(arguments, HEDDLE_VERSION) != apps::ParseResult::kRun) return 0;
  apps::check_output_file("--json", options.json);
  apps::check_output_file("--svg", options.svg);
  const Setup setup = make_setup(options);
  const Outcome outcome = simulate(setup);
  if (options.json != "-") std::cout << report_text(options, setup, outcome);
  if (!options.json.empty())
    apps::write_output_file("--json", options.json,
                            report_json(flags.values(), setup, outcome).dump(2));
  if (!options.svg.empty())
    apps::write_output_file(
        "--svg", options.svg,
        timeline_svg(outcome, picture_title(options, setup), picture_subtitle(setup, outcome)));
  return 0;
}

}  // namespace
}  // namespace heddle::lab

int main(int argc, char** argv) {
  return heddle::apps::run_program("parallel_lab", [&] {
    return heddle::lab::run({argv + 1, argv + argc});
  });
}
