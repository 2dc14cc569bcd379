#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/tests/apps/parallel_lab.h"
#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"

namespace heddle::test {
namespace {

const char* const kLab = HEDDLE_BIN_FOLDER "/parallel_lab";

nlohmann::json simulated(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--devices", "none", "--model", "simple_cnn", "--batch-size",
                                     "256", "--bucket-mib", "1"});
  const nlohmann::json all = lab_json(kLab, std::move(arguments));
  CHECK(!all.contains("run"));
  CHECK(all.at("simulated").at("times") == "simulated");
  return all.at("simulated");
}

TEST_CASE("parallel_lab exchanges with the least bytes, before backward ends") {
  const nlohmann::json step = simulated({"--replicas", "4", "--exchange", "direct"});
  const double least = step.at("least_bytes");
  for (const nlohmann::json& sent : step.at("bytes_sent"))
    CHECK(sent.get<double>() == Approx(least).epsilon(1e-3));
  CHECK(step.at("first_copy_seconds") < step.at("backward_end_seconds"));
  CHECK(step.at("exchanged_buckets") == step.at("buckets").size());
}

TEST_CASE("parallel_lab's simulated faults cost time, and a lost replica the step") {
  const double good = simulated({}).at("step_seconds");
  CHECK(simulated({"--slow-replica", "1"}).at("step_seconds") > good);
  CHECK(simulated({"--no-peer", "all"}).at("step_seconds") > good);
  CHECK(simulated({"--exchange", "gather"}).at("step_seconds") > good);
  CHECK(simulated({"--late-replica", "1", "--late-ms", "5"}).at("step_seconds") > good + 0.004);
  const nlohmann::json lost = simulated({"--lost-replica", "2"});
  CHECK(lost.at("completed") == false);
  CHECK(lost.at("exchanged_buckets") < lost.at("buckets").size());
}

}  // namespace

TEST_CASE("parallel_lab runs steps: falling losses, the same bits on all replicas") {
  for (const char* model : {"small_cnn", "small_resnet"}) {
    INFO(model);
    const nlohmann::json run = lab_json(kLab, {"--model", model, "--steps", "4"}).at("run");
    check_steps(run, 4, 4);
    CHECK(run.at("steps").back().at("loss") < run.at("steps").front().at("loss"));
    CHECK_THAT(run.at("bytes_known").get<std::string>(), ContainsSubstring("plans"));
    CHECK(!run.contains("counted"));
  }
}

TEST_CASE("parallel_lab's steps send the least possible, whoever sums") {
  for (const char* exchange : {"direct", "ring"}) {
    for (const char* devices : {"cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu"}) {
      INFO(exchange << " on " << devices);
      check_least_bytes(
          lab_json(kLab, {"--devices", devices, "--exchange", exchange, "--steps", "2"}).at("run"));
    }
  }
  const nlohmann::json one = lab_json(kLab, {"--devices", "cpu"}).at("run");
  CHECK(one.at("exchanges") == 0);
}

TEST_CASE("parallel_lab runs fewer images than replicas") {
  const nlohmann::json run = lab_json(kLab, {"--batch-size", "2"}).at("run");
  CHECK(run.at("images") == std::vector<int>{1, 1, 0, 0});
  check_steps(run, 3, 4);
  CHECK(lab_exit_code(kLab, {"--batch-size", "2", "--slow-replica", "3"}) == 2);
}

TEST_CASE("parallel_lab runs a split that is given, which sums to other bits and the same loss") {
  const nlohmann::json given = lab_json(kLab, {"--split", "40,0,16,8"}).at("run");
  CHECK(given.at("images") == std::vector<int>{40, 0, 16, 8});
  check_steps(given, 3, 4);
  check_least_bytes(given);
  const nlohmann::json even = lab_json(kLab, {}).at("run");
  CHECK(given.at("steps").back().at("loss").get<double>() ==
        Approx(even.at("steps").back().at("loss").get<double>()).margin(1e-4));
  CHECK(lab_exit_code(kLab, {"--split", "40,0,16,8", "--lost-replica", "1"}) == 2);
  CHECK(lab_exit_code(kLab, {"--split", "0,0,0,0"}) == 2);
}

TEST_CASE("parallel_lab: a slow replica and a late one change times, and no bits") {
  const nlohmann::json slow =
      lab_json(kLab, {"--slow-replica", "1", "--slow-factor", "3"}).at("run");
  CHECK(slow.at("same_as_without_faults") == true);
  CHECK(slow.at("injected_delay_seconds") > 0.0);
  CHECK(works_of(slow.at("timeline"), 1).contains("injected delay"));
  CHECK(!works_of(slow.at("timeline"), 0).contains("injected delay"));
  const nlohmann::json late =
      lab_json(kLab, {"--late-replica", "2", "--late-ms", "5", "--steps", "2"}).at("run");
  CHECK(late.at("same_as_without_faults") == true);
  CHECK(late.at("injected_delay_seconds").get<double>() == Approx(0.01));
  CHECK(late.at("timeline").at("seconds") > 0.005);
}

TEST_CASE("parallel_lab: a lost replica is named, the others end, and the step can be repeated") {
  const nlohmann::json run = lab_json(kLab, {"--lost-replica", "2"}).at("run");
  check_lost(run, "replica 2 on the CPU");
  CHECK(run.at("steps").size() == 2);
}

TEST_CASE("parallel_lab measures what each replica's thread does") {
  const nlohmann::json timeline =
      lab_json(kLab, {"--devices", "cpu,cpu,cpu"}).at("run").at("timeline");
  CHECK(timeline.at("times") == "measured by the host's clock");
  for (int replica = 0; replica < 3; ++replica) {
    const std::set<std::string> works = works_of(timeline, replica);
    INFO(replica);
    for (const char* work : {"forward", "backward", "update"}) CHECK(works.contains(work));
  }
  for (const nlohmann::json& span : timeline.at("spans")) {
    CHECK(span.at("begin_seconds") >= 0.0);
    CHECK(span.at("begin_seconds") <= span.at("end_seconds"));
    CHECK(span.at("end_seconds") <= timeline.at("seconds"));
  }
}

TEST_CASE("parallel_lab draws a simulated and a measured timeline, labelled so") {
  const TemporaryFolder folder;
  const std::string svg = folder / "step.svg";
  REQUIRE(run_process({kLab, "--svg", svg, "--replicas", "3"}).exit_code == 0);
  const std::string picture = read_text(svg);
  CHECK(picture.find("simulated time, ms") != std::string::npos);
  CHECK(picture.find("measured time, ms") != std::string::npos);
  CHECK(count_in(picture, ">compute<") == 6);
  CHECK(count_in(picture, ">exchange<") >= 6);
  CHECK(count_in(picture, ">replica 2<") == 3);  // two timelines and the bytes
  REQUIRE(run_process({kLab, "--svg", svg, "--devices", "none"}).exit_code == 0);
  CHECK(read_text(svg).find("measured") == std::string::npos);
}

TEST_CASE("parallel_lab refuses what is wrong") {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--no-peer", "0-9"},
                                                {"--split", "1,2"},
                                                {"--slow-replica", "4"},
                                                {"--lost-replica", "7"},
                                                {"--links", "measured"},
                                                {"--steps", "0"},
                                                {"--model", "large"},
                                                {"--devices", "cpu,gpu"},
                                                {"--devices", "cpu,cuda:0"}}) {
    const ProcessResult result = run_process({kLab, wrong[0], wrong[1]});
    INFO(wrong[0] << " " << wrong[1]);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(wrong[0]));
  }
  const ProcessResult both = run_process({kLab, "--devices", "cpu,cpu", "--replicas", "3"});
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.err, ContainsSubstring("--replicas"));
}

}  // namespace heddle::test
