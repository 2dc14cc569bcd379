// A training from end to end: what it prints, what it leaves, and what its results depend on.
#include <filesystem>

#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

void check_done(const ProcessResult& result) {
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

std::vector<std::string> names_in(const fs::path& path) {
  std::vector<std::string> names;
  const SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.entries()) names.push_back(entry.name);
  return names;
}

}  // namespace

TEST_CASE("a run prints its settings, a row for each epoch and the classes") {
  const TrainingGround ground;
  const ProcessResult result = ground.train("run", {"--epochs", "2", "--lr", "0.005"});
  check_done(result);
  CHECK(result.err.empty());
  for (const char* text : {"50 training and 12 test pictures", "lr=0.005", "batch_size=8", "seed=0",
                           "1 thread,", "oneDNN", "provider native", "train loss", "images/s",
                           "left", "1/2", "2/2", "test accuracy", "of 12)", "truck"})
    CHECK_THAT(result.out, ContainsSubstring(text));
  CHECK(result.out.find('\r') == std::string::npos);  // no bar where there is no terminal
}

TEST_CASE("a quiet run prints its result only") {
  const TrainingGround ground;
  const ProcessResult result = ground.train("run", {"--epochs", "1", "-q"});
  check_done(result);
  CHECK(result.out.starts_with("test accuracy"));
}

TEST_CASE("a run leaves metrics, config, model and checkpoint") {
  const TrainingGround ground;
  check_done(ground.train("run", {"--epochs", "2", "--seed", "3"}));
  const auto steps = ground.metrics("run", "step");
  const auto epochs = ground.metrics("run", "epoch");
  REQUIRE(steps.size() == 14);
  REQUIRE(epochs.size() == 2);
  CHECK(steps[6]["samples"] == 2);
  CHECK(steps[13]["step"] == 14);
  CHECK(epochs[1]["epoch"] == 2);
  for (const char* key : {"train_loss", "train_accuracy", "test_loss", "test_accuracy",
                          "data_seconds", "step_seconds", "eval_seconds"})
    CHECK(epochs[0][key].is_number());

  const auto config = nlohmann::json::parse(ground.read("run/config.json"));
  CHECK(config["settings"]["seed"] == 3);
  CHECK(config["settings"]["batch_size"] == 8);
  CHECK(config["data"]["train"] == 50);
  CHECK(config["heddle"] == HEDDLE_TEST_VERSION);

  const std::vector<std::string> names = names_in(ground / "run/model.safetensors");
  for (const char* name : {"conv1.weight", "bn1.running_var", "fc.bias"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  for (const fs::directory_entry& entry : fs::directory_iterator(ground / "run"))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("the command in config.json makes the same run again") {
  const TrainingGround ground;
  check_done(ground.train("run", {"--epochs", "1", "--optimizer", "sgd", "--momentum", "0.9"}));
  const auto config = nlohmann::json::parse(ground.read("run/config.json"));
  auto command = config["command"].get<std::vector<std::string>>();
  *(std::find(command.begin(), command.end(), "--out") + 1) = ground / "again";
  check_done(run_train_cifar(command));
  CHECK(ground.read("run/model.safetensors") == ground.read("again/model.safetensors"));
}

TEST_CASE("an epoch's loss weighs batches by their samples") {
  const TrainingGround ground(2, 10);  // 10 pictures: batches of 8 and 2
  check_done(ground.train("run", {"--epochs", "1"}));
  const auto steps = ground.metrics("run", "step");
  REQUIRE(steps.size() == 2);
  CHECK(steps[1]["samples"] == 2);
  const double sum = 8 * steps[0]["loss"].get<double>() + 2 * steps[1]["loss"].get<double>();
  CHECK(ground.metrics("run", "epoch")[0]["train_loss"].get<double>() == Approx(sum / 10.0));
}

TEST_CASE("a batch larger than the set is the whole set, and one sample is a batch") {
  const TrainingGround ground(2, 6);
  check_done(ground.train("large", {"--epochs", "1", "--limit", "6"}));
  const auto steps = ground.metrics("large", "step");
  REQUIRE(steps.size() == 1);
  CHECK(steps[0]["samples"] == 6);
  const ProcessResult single =
      run_train_cifar({"--data", ground / "data", "--allow-small", "--model", "tiny_cnn", "--batch",
                       "1", "--epochs", "1", "--out", ground / "single"});
  check_done(single);
  CHECK(ground.metrics("single", "step").size() == 10);
  CHECK_THAT(single.out, ContainsSubstring("of 6)"));
}

TEST_CASE("results do not depend on workers or threads") {
  const TrainingGround ground;
  check_done(ground.train("one", {"--epochs", "2", "--workers", "0"}));
  for (const char* workers : {"1", "3", "8"}) {
    check_done(ground.train("many", {"--epochs", "2", "--workers", workers, "--overwrite"}));
    CHECK(ground.read("one/model.safetensors") == ground.read("many/model.safetensors"));
  }
  std::vector<std::string> threads = ground.flags("threads", {"--epochs", "2"});
  *(std::find(threads.begin(), threads.end(), "--threads") + 1) = "3";
  check_done(run_train_cifar(threads));
  CHECK(ground.read("one/model.safetensors") == ground.read("threads/model.safetensors"));
}

TEST_CASE("parts of a batch add up to the step of the whole batch") {
  const TrainingGround ground(2, 4);
  const auto weights = [&](const char* out, const char* parts) {
    check_done(
        run_train_cifar({"--data", ground / "data", "--allow-small", "--epochs", "1",
                         "--batch-size", "10", "--optimizer", "sgd", "--lr", "0.1", "--accumulate",
                         parts, "--provider", "native", "--out", ground / out, "--quiet"}));
    for (const auto& [name, tensor] :
         SafetensorsFile(ground / (std::string(out) + "/model.safetensors")).tensors())
      if (name == "fc2.weight") return tensor.to_vector<float>();
    return std::vector<float>();
  };
  const std::vector<float> whole = weights("whole", "1"), parts = weights("parts", "3");
  REQUIRE(whole.size() == 1280);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(parts[i] == Approx(whole[i]).margin(1e-5));
  CHECK(ground.metrics("whole", "step")[0]["loss"].get<double>() ==
        Approx(ground.metrics("parts", "step")[0]["loss"].get<double>()));
}

TEST_CASE("bfloat16 arithmetic trains float32 weights and resumes with the same bits") {
  const TrainingGround ground;
  check_done(ground.train("whole", {"--epochs", "2", "--precision", "bf16"}));
  check_done(ground.train("single", {"--epochs", "2"}));
  check_done(ground.train("run", {"--epochs", "1", "--precision", "bf16"}));
  check_done(ground.resume("run", {"--epochs", "2"}));
  CHECK(ground.read("whole/model.safetensors") == ground.read("run/model.safetensors"));
  CHECK(ground.read("whole/model.safetensors") != ground.read("single/model.safetensors"));
  for (const auto& [name, tensor] : SafetensorsFile(ground / "run/model.safetensors").tensors())
    CHECK((tensor.dtype() == DType::kFloat32 || name == "bn1.num_batches_tracked"));
}

TEST_CASE("the seed decides the run") {
  const TrainingGround ground;
  check_done(ground.train("a", {"--epochs", "1", "--seed", "1"}));
  check_done(ground.train("b", {"--epochs", "1", "--seed", "1"}));
  check_done(ground.train("c", {"--epochs", "1", "--seed", "2"}));
  CHECK(ground.read("a/model.safetensors") == ground.read("b/model.safetensors"));
  CHECK(ground.read("a/model.safetensors") != ground.read("c/model.safetensors"));
}

TEST_CASE("accumulation, smoothing, clipping and warm-up work together") {
  const TrainingGround ground;
  check_done(ground.train("run", {"--epochs", "1", "--accumulate", "3", "--label-smoothing", "0.1",
                                  "--clip-norm", "1", "--schedule", "cosine", "--warmup", "2"}));
  const auto steps = ground.metrics("run", "step");
  REQUIRE(steps.size() == 7);
  CHECK(steps[0]["samples"] == 8);
  CHECK(steps[0]["lr"].get<double>() == Approx(0.0005));
  CHECK(steps[1]["lr"].get<double>() == Approx(0.001));
}

TEST_CASE("without --data the run says that its pictures are generated") {
  const TemporaryFolder folder;
  const ProcessResult result =
      run_train_cifar({"--model", "tiny_cnn", "--limit", "64", "--epochs", "1", "--quiet"},
                      {.directory = folder.path()});
  check_done(result);
  CHECK_THAT(result.out, ContainsSubstring("generated pictures, not CIFAR-10"));
  REQUIRE(fs::exists(folder.path() / "runs"));
  const fs::directory_iterator runs(folder.path() / "runs");
  const fs::path run = runs->path();
  CHECK(run.filename().string().starts_with("tiny_cnn-"));
  CHECK(fs::exists(run / "model.safetensors"));
}

TEST_CASE("evaluation alone measures saved weights and writes nothing") {
  const TrainingGround ground;
  const ProcessResult trained = ground.train("run", {"--epochs", "1", "--quiet"});
  check_done(trained);
  for (const char* file : {"run/model.safetensors", "run/checkpoint.safetensors"}) {
    const ProcessResult result =
        run_train_cifar({"--eval-only", "--quiet", "--init", ground / file, "--data",
                         ground / "data", "--allow-small", "--model", "tiny_cnn", "--batch-size",
                         "8", "--provider", "native", "--threads", "1", "--workers", "2"},
                        {.directory = ground / ""});
    check_done(result);
    CHECK(result.out == trained.out);
  }
  const ProcessResult resumed = ground.resume("run", {"--eval-only", "--quiet"});
  check_done(resumed);
  CHECK(resumed.out == trained.out);
  CHECK_FALSE(fs::exists(ground / "runs"));
}

TEST_CASE("the flags summary and list-devices print and exit") {
  const TemporaryFolder folder;
  const ProcessResult summary =
      run_train_cifar({"--summary", "--model", "simple_cnn"}, {.directory = folder.path()});
  CHECK(summary.exit_code == 0);
  for (const char* text : {"conv1", "fc2", "8,409,418"})
    CHECK_THAT(summary.out, ContainsSubstring(text));
  const ProcessResult devices = run_train_cifar({"--list-devices"}, {.directory = folder.path()});
  CHECK(devices.exit_code == 0);
  CHECK_THAT(devices.out, ContainsSubstring("cpu"));
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace heddle::test
