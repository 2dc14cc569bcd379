// --trace, and the account of each epoch, from the command line.
#include <signal.h>

#include <map>
#include <set>

#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

using Json = nlohmann::json;

/// The names of spans, by the name of their row.
std::map<std::string, std::set<std::string>> spans_by_row(const Json& trace) {
  std::map<std::pair<int, int>, std::string> rows;
  std::map<std::string, std::set<std::string>> spans;
  for (const Json& event : trace["traceEvents"]) {
    const std::pair<int, int> row{event["pid"], event["tid"]};
    if (event["name"] == "thread_name") rows[row] = event["args"]["name"];
    if (event["ph"] == "X") spans[rows.at(row)].insert(event["name"]);
  }
  return spans;
}

void check_holds(const std::set<std::string>& names, const std::vector<std::string>& expected) {
  for (const std::string& name : expected) {
    INFO(name);
    CHECK(names.contains(name));
  }
}

}  // namespace

TEST_CASE("a trace shows loader threads, steps, layers and operations") {
  const TrainingGround ground;
  const ProcessResult result =
      ground.train("run", {"--epochs", "1", "--workers", "2", "--trace", ground / "trace.json"});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("trace.json: "));
  const auto spans = spans_by_row(Json::parse(ground.read("trace.json")));
  check_holds(spans.at("training"), {"step", "wait for data", "forward and backward", "update",
                                     "conv1", "conv2d_forward", "conv2d", "evaluate", "save"});
  check_holds(spans.at("loader 0"), {"prepare batch"});
  CHECK(spans.contains("loader 1"));
}

TEST_CASE("a trace changes no result") {
  const TrainingGround ground;
  REQUIRE(ground.train("plain", {"--epochs", "1"}).exit_code == 0);
  REQUIRE(ground.train("traced", {"--epochs", "1", "--trace", ground / "t.json"}).exit_code == 0);
  CHECK(ground.read("plain/model.safetensors") == ground.read("traced/model.safetensors"));
}

TEST_CASE("a trace that cannot be written is refused before training") {
  const TrainingGround ground;
  for (const std::string& path : {ground / "nowhere/trace.json", ground / "data",
                                  std::string("/dev/null"), std::string("/proc/trace.json")}) {
    INFO(path);
    const ProcessResult result = ground.train("run", {"--trace", path});
    CHECK(result.exit_code == 1);
    check_one_line(result);
    CHECK_THAT(result.err, ContainsSubstring("--trace " + path));
    CHECK_FALSE(std::filesystem::exists(ground / "run"));
  }
}

TEST_CASE("an interrupted and a failed run leave a trace that ends there") {
  const TrainingGround ground;
  Process process(
      train_cifar(ground.flags("run", {"--epochs", "100000", "--trace", ground / "stopped.json"})));
  REQUIRE(process.wait_for("epoch 2/"));
  process.send(SIGTERM);
  CHECK(process.wait().exit_code == 130);
  CHECK(spans_by_row(Json::parse(ground.read("stopped.json"))).contains("training"));
  const ProcessResult failed = ground.train(
      "nan", {"--lr", "1e30", "--optimizer", "sgd", "--trace", ground / "failed.json"});
  CHECK(failed.exit_code == 1);
  check_one_line(failed);
  CHECK(spans_by_row(Json::parse(ground.read("failed.json"))).contains("training"));
}

TEST_CASE("each epoch has an account of its time and a verdict") {
  const TrainingGround ground;
  const ProcessResult result = ground.train("run", {"--epochs", "2"});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("-bound "));
  for (const Json& epoch : ground.metrics("run", "epoch")) {
    double sum = 0.0;
    for (const char* part : {"data", "copy", "compute", "reduce", "update", "other"})
      sum += epoch["split"][part].get<double>();
    const double wall = epoch["data_seconds"].get<double>() + epoch["step_seconds"].get<double>();
    CHECK(sum == Approx(wall).epsilon(0.01));
    CHECK(epoch["split"]["compute"] > 0.0);
    CHECK(epoch["split"]["reduce"] == 0.0);
    CHECK_THAT(epoch["verdict"].get<std::string>(), ContainsSubstring("-bound "));
  }
  std::istringstream lines(result.out);
  bool table = false;
  for (std::string line; std::getline(lines, line);) {
    table |= line.find("train loss") != std::string::npos;
    if (table) CHECK(line.size() <= 80);
  }
}

}  // namespace heddle::test
