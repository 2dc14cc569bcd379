// A laboratory of data parallelism: training steps over several replicas, as they run and as a
// model of time has them.
#include <iostream>

#include "heddle/apps/parallel_lab/options.h"
#include "heddle/apps/parallel_lab/report.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/apps/support/program.h"

namespace heddle::lab {
namespace {

int run(const std::vector<std::string>& arguments) {
  Options options;
  apps::FlagSet flags(
      "parallel_lab",
      "Runs training steps over several replicas, with faults where they are asked "
      "for, and simulates one such step; shows what each computes, copies and waits "
      "for, and what each link carries.");
  add_flags(flags, options);
  if (flags.parse(arguments, HEDDLE_VERSION) != apps::ParseResult::kRun) return 0;
  check_flags(flags, options);
  apps::check_output_file("--json", options.json);
  apps::check_output_file("--svg", options.svg);
  Experiment experiment;
  experiment.devices = choose_devices(options, flags.given("--replicas"));
  experiment.setup = make_setup(options, experiment.devices);
  experiment.options = options;
  experiment.simulated = simulate(experiment.setup);
  if (!experiment.devices.empty())
    experiment.run = run_steps(make_run_setup(options, experiment.devices, experiment.setup));
  if (options.json != "-") std::cout << report_text(experiment);
  if (!options.json.empty())
    apps::write_output_file("--json", options.json,
                            report_json(flags.values(), experiment).dump(2));
  if (!options.svg.empty())
    apps::write_output_file("--svg", options.svg, draw(picture_of(experiment)));
  return 0;
}

}  // namespace
}  // namespace heddle::lab

int main(int argc, char** argv) {
  return heddle::apps::run_program("parallel_lab", [&] {
    return heddle::lab::run({argv + 1, argv + argc});
  });
}
