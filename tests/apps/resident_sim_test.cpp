// train_cifar with its data set in the devices' memory, on cudasim's: the runs of other staging.
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

std::vector<std::string> with(std::vector<std::string> flags, const std::string& staging) {
  flags.insert(flags.end(), {"--staging", staging});
  return flags;
}

ProcessOptions unchecked() {
  ProcessOptions options;
  options.environment = {"CUDASIM_CHECKS=off"};
  return options;
}

}  // namespace

TEST_CASE("train_cifar: --staging resident has the weights of uint8", "[device]") {
  const std::vector<std::vector<std::string>> runs{
      {"--devices", "cuda:0", "--graph", "off"},
      {"--devices", "cuda:0", "--graph", "on", "--limit", "30"},
      {"--devices", "cuda:0,cuda:1", "--shards", "4", "--precision", "bf16"}};
  for (std::vector<std::string> flags : runs) {
    INFO(flags[1] << " " << flags[2] << " " << flags[3]);
    const TrainingGround ground;
    flags.insert(flags.end(), {"--epochs", "2"});
    const ProcessResult resident = ground.train("resident", with(flags, "resident"), unchecked());
    INFO(resident.err);
    REQUIRE(resident.exit_code == 0);
    REQUIRE(ground.train("uint8", with(flags, "uint8"), unchecked()).exit_code == 0);
    CHECK(ground.read("resident/model.safetensors") == ground.read("uint8/model.safetensors"));
  }
}

TEST_CASE("train_cifar: a run goes on from the middle of an epoch with its data resident",
          "[device]") {
  const TrainingGround ground;
  const std::vector<std::string> flags{"--devices", "cuda:0", "--epochs", "2"};
  REQUIRE(ground.train("whole", with(flags, "uint8"), unchecked()).exit_code == 0);
  // A fault of the device in the second epoch, after a checkpoint within it.
  ProcessOptions failing = unchecked();
  failing.environment.push_back("CUDASIM_FAULT=0:600:cudaErrorLaunchFailure");
  std::vector<std::string> often = with(flags, "uint8");
  often.insert(often.end(), {"--save-every", "1", "--graph", "off"});
  REQUIRE(ground.train("broken", often, failing).exit_code == 1);
  const auto step = ground.metrics("broken", "step").back()["step"].get<int64_t>();
  CHECK(step % 7 != 0);  // 50 pictures in batches of 8
  REQUIRE(ground.resume("broken", {"--staging", "resident"}, unchecked()).exit_code == 0);
  CHECK(ground.read("broken/model.safetensors") == ground.read("whole/model.safetensors"));
}

TEST_CASE("train_cifar: data that a device has no room for end the run at its start", "[device]") {
  const TrainingGround ground;
  ProcessOptions small = unchecked();
  small.environment.push_back("CUDASIM_MEMORY=250000");
  const ProcessResult result =
      ground.train("run", {"--devices", "cuda:0", "--staging", "resident", "--epochs", "1"}, small);
  INFO(result.err);
  CHECK(result.exit_code == 1);
  check_one_line(result);
  CHECK_THAT(result.err, ContainsSubstring("50 resident pictures are 0.1 MiB, cuda:0 has 0."));
  CHECK_THAT(result.err, ContainsSubstring("use fewer pictures, or staging uint8"));
  const std::vector<std::string> retry{"--devices", "cuda:0", "--epochs", "1"};
  CHECK(ground.train("run", with(retry, "uint8"), unchecked()).exit_code == 0);
}

}  // namespace heddle::test
