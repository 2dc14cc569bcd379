// What a device can do to a run, on cudasim's: it runs out of memory, a kernel fails, it is lost
// between two steps, it is not there. Each ends the program with one line on standard error, the
// exit code for it, and the last good checkpoint in place.
#include <signal.h>

#include <filesystem>
#include <thread>

#include "heddle/core/dtype.h"
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kOnDevice{"--devices", "cuda:0", "--epochs", "2"};

ProcessOptions with(const std::vector<std::string>& environment) {
  ProcessOptions options;
  options.environment = environment;
  return options;
}

void check_failed(const ProcessResult& result, const std::vector<std::string>& said) {
  CHECK(result.exit_code == 1);
  CHECK(result.signal == 0);
  INFO(result.err);
  check_one_line(result);
  for (const std::string& text : said) CHECK_THAT(result.err, ContainsSubstring(text));
}

/// Whether what lies in a run's folder is whole: a checkpoint that loads, nothing temporary.
void check_intact(const TrainingGround& ground, const std::string& out) {
  for (const auto& [name, tensor] :
       SafetensorsFile(ground / (out + "/checkpoint.safetensors")).tensors())
    if (is_floating(tensor.dtype())) CHECK(all_finite(tensor));
  for (const fs::directory_entry& entry : fs::directory_iterator(ground / out))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

}  // namespace

TEST_CASE("a device that runs out of memory is named, with what was asked for", "[device]") {
  const TrainingGround ground;
  check_failed(ground.train("run", kOnDevice, with({"CUDASIM_MEMORY=200000"})),
               {"cuda:0 has no ", " bytes left for "});
}

TEST_CASE("a kernel that fails ends the run, and the last checkpoint stands", "[device]") {
  const TrainingGround ground;
  for (const char* fault : {"cudaErrorIllegalAddress", "cudaErrorLaunchFailure"}) {
    INFO(fault);
    const std::string out = std::string("run-") + fault;
    check_failed(ground.train(out, kOnDevice, with({fmt::format("CUDASIM_FAULT=0:300:{}", fault)})),
                 {fault, "cuda:0"});
    check_intact(ground, out);
    CHECK(ground.resume(out).exit_code == 0);
  }
}

TEST_CASE("a device that fails while work is late ends the run in the same way", "[device]") {
  const TrainingGround ground;
  check_failed(ground.train("run", kOnDevice,
                            with({"CUDASIM_FAULT=0:300:cudaErrorIllegalAddress",
                                  "CUDASIM_SCHEDULE=latest"})),
               {"cudaErrorIllegalAddress"});
  check_intact(ground, "run");
}

TEST_CASE("a device that is lost at any time leaves what was there", "[device]") {
  const TrainingGround ground;
  for (const int kernels : {1, 40, 300}) {
    INFO(kernels);
    const std::string out = fmt::format("run-{}", kernels);
    const ProcessResult result = ground.train(
        out, kOnDevice, with({fmt::format("CUDASIM_FAULT=0:{}:cudaErrorUnknown", kernels)}));
    check_failed(result, {"cudaErrorUnknown"});
    if (fs::exists(ground / (out + "/checkpoint.safetensors"))) {
      check_intact(ground, out);
      CHECK(ground.resume(out, {"--epochs", "1"}).exit_code == 0);
    }
  }
}

TEST_CASE("a device that fails leaves the trace of what led to it", "[device]") {
  const TrainingGround ground;
  std::vector<std::string> flags = kOnDevice;
  flags.insert(flags.end(), {"--trace", ground / "trace.json"});
  check_failed(ground.train("run", flags, with({"CUDASIM_FAULT=0:300:cudaErrorIllegalAddress"})),
               {"cudaErrorIllegalAddress"});
  CHECK(nlohmann::json::parse(ground.read("trace.json"))["traceEvents"].size() > 100);
}

TEST_CASE("a machine without devices says so, and asks for none", "[device]") {
  const TrainingGround ground;
  const ProcessResult result = ground.train("run", kOnDevice, with({"CUDASIM_DEVICES=0"}));
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("cuda:0"));
  CHECK_FALSE(fs::exists(ground / "run"));
}

TEST_CASE("a loss that is not finite on a device ends the run", "[device]") {
  const TrainingGround ground;
  std::vector<std::string> flags = kOnDevice;
  flags.insert(flags.end(), {"--lr", "1e30", "--optimizer", "sgd"});
  check_failed(ground.train("run", flags), {"step ", "not finite", "checkpoint is kept"});
  check_intact(ground, "run");
}

TEST_CASE("signals stop a run on a device after its step, with all saved", "[device]") {
  const TrainingGround ground;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = fmt::format("run-{}", signal);
    Process process(train_cifar(ground.flags(out, {"--devices", "cuda:0", "--epochs", "1000"})));
    REQUIRE(process.wait_for("epoch 1/"));
    process.send(signal);
    CHECK(process.wait().exit_code == 130);
    check_intact(ground, out);
  }
}

TEST_CASE("data that are cut short under a run on a device end it with one line", "[device]") {
  const TrainingGround ground;
  Process process(
      train_cifar(ground.flags("run", {"--devices", "cuda:0", "--epochs", "1000", "--quiet"})));
  while (ground.read("run/metrics.jsonl").find("\"step\":2,") == std::string::npos &&
         process.running())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fs::resize_file(ground / "data/data_batch_2.bin", 1000);
  check_failed(process.wait(), {"data_batch_2.bin"});
  check_intact(ground, "run");
}

TEST_CASE("the account of an epoch is measured by the device's events", "[device]") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--devices", "cuda:0", "--epochs", "1"}).exit_code == 0);
  const auto epochs = ground.metrics("run", "epoch");
  REQUIRE(epochs.size() == 1);
  CHECK(epochs[0]["split"]["compute"] > 0.0);
  CHECK(epochs[0]["split"]["update"] > 0.0);
  CHECK(epochs[0]["split"]["copy"] > 0.0);
}

TEST_CASE("a trace has a row for each stream, with operations and copies", "[device]") {
  const TrainingGround ground;
  REQUIRE(
      ground
          .train("run", {"--devices", "cuda:0", "--epochs", "1", "--trace", ground / "trace.json"})
          .exit_code == 0);
  const nlohmann::json trace = nlohmann::json::parse(ground.read("trace.json"));
  bool device = false, stream = false, operation = false, copy = false;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    device |= event["name"] == "process_name" && event["args"]["name"] == "cuda:0";
    stream |= event["name"] == "thread_name" && event["pid"] == 2;
    operation |= event["pid"] == 2 && event["name"] == "conv2d_forward";
    copy |= event["pid"] == 2 && event["name"] == "copy batch";
    if (event["ph"] == "X") CHECK(event["dur"] >= 0.0);
  }
  CHECK(device);
  CHECK(stream);
  CHECK(operation);
  CHECK(copy);
}

}  // namespace heddle::test
