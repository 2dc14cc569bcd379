// parallel_lab on cudasim's devices, with each fault: it ends with exit code 66 where the check of
// order finds something.
#include "heddle/tests/apps/parallel_lab.h"

namespace heddle::test {
namespace {

const char* const kLab = HEDDLE_BIN_FOLDER "/parallel_lab_sim";

nlohmann::json run_of(std::vector<std::string> arguments) {
  return lab_json(kLab, std::move(arguments)).at("run");
}

/// What cudasim counted is what the plans say.
void check_counted(const nlohmann::json& run) {
  CHECK(run.at("counted").at("between_devices") == check_least_bytes(run));
}

}  // namespace

TEST_CASE("parallel_lab_sim runs on virtual devices, and cudasim counts the least bytes",
          "[device]") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--exchange", "direct"},
        {"--exchange", "ring", "--devices", "cuda:0,cuda:1,cuda:2"},
        {"--split", "9,0,3,4"},
        {"--model", "small_resnet", "--replicas", "2", "--batch-size", "8"}}) {
    INFO(arguments[1]);
    const nlohmann::json run = run_of(arguments);
    CHECK(run.at("virtual") == true);
    CHECK(!run.contains("timeline"));
    check_steps(run, 3, run.at("devices").size());
    check_counted(run);
  }
}

TEST_CASE("parallel_lab_sim: without peer access, through the host, the same bits", "[device]") {
  const nlohmann::json all = run_of({"--no-peer", "all", "--steps", "2"});
  CHECK(all.at("same_as_without_faults") == true);
  CHECK(all.at("counted").at("between_devices") == 0);
  CHECK(all.at("counted").at("from_host") == check_least_bytes(all));
  const nlohmann::json one = run_of({"--no-peer", "0-1", "--steps", "2"});
  CHECK(one.at("same_as_without_faults") == true);
  const auto bytes = one.at("bytes_by_link").get<std::vector<std::vector<int64_t>>>();
  CHECK(one.at("counted").at("from_host") == bytes[0][1] + bytes[1][0]);
}

TEST_CASE("parallel_lab_sim: late copies, and a slow replica, change no bits", "[device]") {
  CHECK(run_of({"--late-replica", "1"}).at("same_as_without_faults") == true);
  const nlohmann::json slow = run_of({"--slow-replica", "3", "--steps", "2"});
  CHECK(slow.at("same_as_without_faults") == true);
  CHECK(slow.at("injected_delay_seconds") > 0.0);
}

TEST_CASE("parallel_lab_sim: a lost device is named, and the others end", "[device]") {
  check_lost(run_of({"--lost-replica", "2"}), "replica 2 on cuda:2");
  check_lost(run_of({"--lost-replica", "0", "--late-replica", "1", "--no-peer", "1-2"}),
             "replica 0 on cuda:0");
}

TEST_CASE("parallel_lab_sim: times of virtual devices are simulated alone", "[device]") {
  const TemporaryFolder folder;
  const std::string svg = folder / "step.svg";
  const ProcessResult result = run_process({kLab, "--svg", svg, "--steps", "1"});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("times of virtual devices mean nothing"));
  const std::string picture = read_text(svg);
  CHECK(picture.find("simulated time, ms") != std::string::npos);
  CHECK(picture.find("measured time") == std::string::npos);
  CHECK(count_in(picture, ">compute<") == 4);
  CHECK(lab_exit_code(kLab, {"--devices", "cuda:0,cuda:0"}) == 2);
  CHECK(lab_exit_code(kLab, {"--links", "measured"}) == 2);
}

}  // namespace heddle::test
