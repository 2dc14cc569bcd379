#include <nlohmann/json.hpp>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

namespace heddle::test {
namespace {

nlohmann::json simulated(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HEDDLE_BIN_FOLDER "/parallel_lab");
  arguments.insert(arguments.end(), {"--json", "-"});
  const ProcessResult result = run_process(arguments);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

TEST_CASE("parallel_lab exchanges with the least bytes, before backward ends") {
  const nlohmann::json step = simulated({"--replicas", "4", "--exchange", "direct"});
  CHECK(step.at("simulated") == true);
  const double least = step.at("least_bytes");
  for (const nlohmann::json& sent : step.at("bytes_sent"))
    CHECK(sent.get<double>() == Approx(least).epsilon(1e-3));
  CHECK(step.at("first_copy_seconds") < step.at("backward_end_seconds"));
  CHECK(step.at("exchanged_buckets") == step.at("buckets").size());
}

TEST_CASE("parallel_lab's faults cost time, and a lost replica the step") {
  const double good = simulated({}).at("step_seconds");
  CHECK(simulated({"--slow-replica", "1"}).at("step_seconds") > good);
  CHECK(simulated({"--no-peer", "all"}).at("step_seconds") > good);
  CHECK(simulated({"--exchange", "gather"}).at("step_seconds") > good);
  CHECK(simulated({"--late-replica", "1", "--late-ms", "5"}).at("step_seconds") > good + 0.004);
  const nlohmann::json lost = simulated({"--lost-replica", "2"});
  CHECK(lost.at("completed") == false);
  CHECK(lost.at("exchanged_buckets") < lost.at("buckets").size());
}

TEST_CASE("parallel_lab draws, and refuses what is wrong") {
  const TemporaryFolder folder;
  const std::string svg = folder / "step.svg", program = HEDDLE_BIN_FOLDER "/parallel_lab";
  REQUIRE(run_process({program, "--svg", svg}).exit_code == 0);
  CHECK(read_text(svg).find("simulated time, ms") != std::string::npos);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--no-peer", "0-9"},
                                                {"--split", "1,2"},
                                                {"--slow-replica", "4"},
                                                {"--measure", "cpu"}}) {
    const ProcessResult result = run_process({program, wrong[0], wrong[1]});
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(wrong[0]));
  }
}

}  // namespace
}  // namespace heddle::test
