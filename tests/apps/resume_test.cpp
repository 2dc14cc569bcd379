// Stopping and going on: signals (CL-2), the same bits after a resume, finished runs and schedules
// (CK-6).
#include <signal.h>

#include <filesystem>
#include <thread>

#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

/// Waits until the run has made `step` steps.
bool wait_for_step(Process& process, const TrainingGround& ground, const std::string& out,
                   int step) {
  const std::string line = "\"step\":" + std::to_string(step) + ",";
  while (ground.read(out + "/metrics.jsonl").find(line) == std::string::npos) {
    if (!process.running()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<std::pair<int, double>> losses(const TrainingGround& ground, const std::string& out) {
  std::vector<std::pair<int, double>> result;
  for (const auto& step : ground.metrics(out, "step"))
    result.emplace_back(step["step"], step["loss"]);
  return result;
}

void check_same_run(const TrainingGround& ground, const std::string& a, const std::string& b) {
  CHECK(ground.read(a + "/model.safetensors") == ground.read(b + "/model.safetensors"));
  CHECK(losses(ground, a) == losses(ground, b));
  const auto epochs_a = ground.metrics(a, "epoch"), epochs_b = ground.metrics(b, "epoch");
  REQUIRE(epochs_a.size() == epochs_b.size());
  for (size_t i = 0; i < epochs_a.size(); ++i)
    for (const char* key : {"step", "lr", "train_loss", "train_accuracy", "test_loss"})
      CHECK(epochs_a[i][key] == epochs_b[i][key]);
}

const std::vector<std::string> kLong{"--epochs", "60", "--workers", "2"};

}  // namespace

TEST_CASE("an interrupted run ends its step, saves, and goes on with the same bits") {
  const TrainingGround ground;  // 7 steps an epoch
  REQUIRE(ground.train("whole", kLong).exit_code == 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = signal == SIGINT ? "int" : "term";
    Process process(train_cifar(ground.flags(out, kLong)));
    REQUIRE(wait_for_step(process, ground, out, 20));
    process.send(signal);
    const ProcessResult stopped = process.wait();
    CHECK(stopped.exit_code == 130);
    CHECK_THAT(stopped.err, ContainsSubstring("--resume"));
    const size_t done = ground.metrics(out, "step").size();
    CHECK(done >= 20);
    const ProcessResult resumed = ground.resume(out, {"--workers", "5", "--threads", "2"});
    INFO(resumed.err);
    CHECK(resumed.exit_code == 0);
    CHECK_THAT(resumed.out, ContainsSubstring("resuming after step " + std::to_string(done)));
    check_same_run(ground, "whole", out);
  }
}

TEST_CASE("a run that was interrupted while it evaluates goes on with the same bits") {
  const TrainingGround ground(10, 2000);  // evaluation takes most of the time
  const std::vector<std::string> flags{"--epochs", "4"};
  REQUIRE(ground.train("whole", flags).exit_code == 0);
  Process process(train_cifar(ground.flags("run", flags)));
  REQUIRE(wait_for_step(process, ground, "run", 14));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  process.send(SIGINT);
  CHECK(process.wait().exit_code == 130);
  CHECK(ground.resume("run", {"--workers", "0"}).exit_code == 0);
  check_same_run(ground, "whole", "run");
}

TEST_CASE("a run that was killed goes on from its last save with the same bits") {
  const TrainingGround ground;
  const std::vector<std::string> flags{"--epochs",    "30",    "--save-every", "3",
                                       "--optimizer", "adamw", "--schedule",   "cosine",
                                       "--clip-norm", "0.5"};
  REQUIRE(ground.train("whole", flags).exit_code == 0);
  Process process(train_cifar(ground.flags("killed", flags)));
  REQUIRE(wait_for_step(process, ground, "killed", 40));
  process.send(SIGKILL);
  CHECK(process.wait().signal == SIGKILL);
  CHECK(ground.resume("killed").exit_code == 0);
  check_same_run(ground, "whole", "killed");
}

TEST_CASE("a second signal ends the program at once, and the checkpoint before still loads") {
  const TrainingGround ground;
  for (int delay = 0; delay < 5; ++delay) {
    const std::string out = "run" + std::to_string(delay);
    Process process(train_cifar(ground.flags(out, {"--epochs", "100000"})));
    REQUIRE(wait_for_step(process, ground, out, 20));
    process.send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    process.send(SIGINT);
    CHECK(process.wait().exit_code == 130);
    const ProcessResult next = ground.resume(out, {"--eval-only"});
    INFO(next.err);
    CHECK(next.exit_code == 0);
  }
}

TEST_CASE("the learning rate drops at its epoch, also after a resume") {
  const TrainingGround ground;
  const std::vector<std::string> schedule{"--lr", "0.1", "--schedule", "step", "--lr-step", "4"};
  std::vector<std::string> flags = schedule;
  flags.insert(flags.end(), {"--epochs", "3"});
  REQUIRE(ground.train("run", flags).exit_code == 0);
  REQUIRE(ground.resume("run", {"--epochs", "6"}).exit_code == 0);
  const auto epochs = ground.metrics("run", "epoch");
  REQUIRE(epochs.size() == 6);
  const double expected[] = {0.1, 0.1, 0.1, 0.1, 0.01, 0.01};
  for (size_t i = 0; i < 6; ++i) CHECK(epochs[i]["lr"].get<double>() == Approx(expected[i]));
}

TEST_CASE("a finished run says so and stays as it is, and goes on with more epochs") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "6"}).exit_code == 0);
  const std::string before = ground.read("run/checkpoint.safetensors");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--epochs", "6"}, {"--epochs", "5"}}) {
    const ProcessResult again = ground.resume("run", flags);
    CHECK(again.exit_code == 0);
    CHECK_THAT(again.out, ContainsSubstring("already at epoch 6 of "));
    CHECK(ground.read("run/checkpoint.safetensors") == before);
  }
  CHECK_THAT(ground.resume("run").out, ContainsSubstring("already at epoch 6 of 6"));
  CHECK(ground.resume("run", {"--epochs", "8"}).exit_code == 0);
  CHECK(ground.metrics("run", "epoch").size() == 8);
  REQUIRE(ground.train("whole", {"--epochs", "8"}).exit_code == 0);
  check_same_run(ground, "whole", "run");
}

TEST_CASE("the command in config.json makes a resumed run again, from its first weights") {
  const TrainingGround ground;
  REQUIRE(ground.train("weights", {"--epochs", "1", "--seed", "9"}).exit_code == 0);
  const std::string init = ground / "weights/model.safetensors";
  const std::vector<std::string> flags{"--init",      init,    "--optimizer",  "adamw",
                                       "--epochs",    "1",     "--save-every", "5",
                                       "--clip-norm", "0.125", "--lr",         "0.003"};
  REQUIRE(ground.train("run", flags).exit_code == 0);
  std::filesystem::remove(init);  // a resumed run has weights of its own
  REQUIRE(ground.resume("run", {"--epochs", "2", "--quiet"}).exit_code == 0);
  const auto config = nlohmann::json::parse(ground.read("run/config.json"));
  CHECK(config["settings"]["init"] == init);
  auto command = config["command"].get<std::vector<std::string>>();
  REQUIRE(std::find(command.begin(), command.end(), "--resume") == command.end());
  *(std::find(command.begin(), command.end(), "--out") + 1) = ground / "again";
  REQUIRE(ground.train("weights", {"--epochs", "1", "--seed", "9", "--overwrite"}).exit_code == 0);
  const ProcessResult again = run_train_cifar(command);
  INFO(again.err);
  CHECK(again.exit_code == 0);
  CHECK(ground.metrics("again", "epoch").size() == 2);
  check_same_run(ground, "run", "again");
}

TEST_CASE("a checkpoint file may be continued in another folder") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const ProcessResult moved = run_train_cifar({"--resume", ground / "run/checkpoint.safetensors",
                                               "--epochs", "2", "--out", ground / "other"});
  INFO(moved.err);
  CHECK(moved.exit_code == 0);
  REQUIRE(ground.train("whole", {"--epochs", "2"}).exit_code == 0);
  CHECK(ground.read("whole/model.safetensors") == ground.read("other/model.safetensors"));
  CHECK(run_train_cifar({"--resume", ground / "run", "--epochs", "2"}).exit_code == 0);
  CHECK(ground.read("whole/model.safetensors") == ground.read("run/model.safetensors"));
}

TEST_CASE("a flag that contradicts the checkpoint is refused with both values") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1", "--lr", "0.002"}).exit_code == 0);
  const std::string before = ground.read("run/checkpoint.safetensors");
  const ProcessResult wrong = ground.resume("run", {"--epochs", "2", "--lr", "0.1"});
  CHECK(wrong.exit_code == 2);
  check_one_line(wrong);
  for (const char* text : {"--lr", "0.1", "0.002"}) CHECK_THAT(wrong.err, ContainsSubstring(text));
  CHECK(ground.read("run/checkpoint.safetensors") == before);
  CHECK(ground.resume("run", {"--epochs", "2", "--lr", "0.002"}).exit_code == 0);
}

TEST_CASE("other data than the checkpoint's are refused") {
  const TrainingGround ground;
  const TrainingGround other(4, 6);
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const ProcessResult wrong =
      ground.resume("run", {"--epochs", "2", "--data", other / "data", "--allow-small"});
  CHECK(wrong.exit_code == 1);
  check_one_line(wrong);
  CHECK_THAT(wrong.err, ContainsSubstring("50") && ContainsSubstring("20"));
}

}  // namespace heddle::test
