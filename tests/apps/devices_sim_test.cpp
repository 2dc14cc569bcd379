// Training on two of cudasim's devices, and what the loss of one of them leaves behind.
#include <filesystem>

#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTwo{"--devices", "cuda:0,cuda:1", "--shards", "4", "--epochs", "1"};

}  // namespace

TEST_CASE("train_cifar: the same shards give the same weights on one and two CUDA devices",
          "[device]") {
  const TrainingGround ground;
  REQUIRE(ground.train("two", kTwo).exit_code == 0);
  REQUIRE(
      ground.train("one", {"--devices", "cuda:0", "--shards", "4", "--epochs", "1"}).exit_code ==
      0);
  CHECK(ground.read("two/model.safetensors") == ground.read("one/model.safetensors"));
}

TEST_CASE("train_cifar: steps of two devices replayed as a graph have the weights of called ones",
          "[device]") {
  const TrainingGround ground;
  ProcessOptions fast;
  fast.environment = {"CUDASIM_CHECKS=off", "CUDASIM_SCHEDULE=latest"};
  const std::vector<std::vector<std::string>> forms{
      {"--precision", "fp32", "--clip-norm", "0.5"},
      {"--precision", "fp16", "--optimizer", "sgd", "--exchange", "gather"}};
  for (const std::vector<std::string>& form : forms) {
    std::vector<std::string> flags = kTwo;
    flags.insert(flags.end(), form.begin(), form.end());
    const std::string precision = form[1];
    for (const std::string graph : {"on", "off"}) {
      std::vector<std::string> all = flags;
      all.insert(all.end(), {"--graph", graph});
      const ProcessResult result = ground.train(precision + graph, all, fast);
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
    }
    CHECK(ground.read(precision + "on/model.safetensors") ==
          ground.read(precision + "off/model.safetensors"));
    CHECK(ground.metrics(precision + "on", "step") == ground.metrics(precision + "off", "step"));
  }
}

TEST_CASE("train_cifar: one of two devices fails: it is named, and the last checkpoint stands",
          "[device]") {
  const TrainingGround ground;
  for (const std::string schedule : {"eager", "latest", "latest-sync"}) {
    INFO(schedule);
    ProcessOptions options;
    // Where work is late, the other device computes on what the failed one never sent.
    options.environment = {"CUDASIM_FAULT=1:300:cudaErrorIllegalAddress", "CUDASIM_CHECKS=off",
                           "CUDASIM_SCHEDULE=" + schedule.substr(0, schedule.find('-'))};
    const std::string out = "run-" + schedule;
    std::vector<std::string> flags = kTwo;
    if (schedule == "latest-sync") flags.emplace_back("--sync-batch-norm");
    const ProcessResult result = ground.train(out, flags, options);
    INFO(result.err);
    CHECK(result.exit_code == 1);
    check_one_line(result);
    CHECK_THAT(result.err, ContainsSubstring("cuda:1"));
    CHECK_THAT(result.err, ContainsSubstring("cudaErrorIllegalAddress"));
    const SafetensorsFile checkpoint(ground / (out + "/checkpoint.safetensors"));
    CHECK(!checkpoint.tensors().empty());
    CHECK(ground.resume(out).exit_code == 0);
  }
}

}  // namespace heddle::test
