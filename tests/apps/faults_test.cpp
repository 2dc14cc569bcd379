// What must not spoil a run: full disks, kills while saving, two programs in one folder (CK-4), NaN
// (NU-7), files of other models (CK-2).
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <random>
#include <thread>

#include "heddle/core/dtype.h"
#include "heddle/core/tape.h"
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

void check_failed(const ProcessResult& result, const std::vector<std::string>& said) {
  CHECK(result.exit_code == 1);
  check_one_line(result);
  for (const std::string& text : said) CHECK_THAT(result.err, ContainsSubstring(text));
}

/// The saved tensors of a run's model, for writing altered files.
NamedTensors saved_model(const TrainingGround& ground) {
  return SafetensorsFile(ground / "run/model.safetensors").tensors();
}

}  // namespace

TEST_CASE("a folder that holds a run is not used again without a word") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const std::string before = ground.read("run/checkpoint.safetensors");
  check_failed(ground.train("run", {"--epochs", "1"}),
               {ground / "run", "already holds a run", "--resume", "--overwrite"});
  CHECK(ground.read("run/checkpoint.safetensors") == before);
  CHECK(ground.train("run", {"--epochs", "1", "--seed", "1", "--overwrite"}).exit_code == 0);
  CHECK(ground.read("run/checkpoint.safetensors") != before);
  CHECK(ground.metrics("run", "epoch").size() == 1);
}

TEST_CASE("an out folder that cannot be written is refused before training") {
  const TrainingGround ground;
  write_text(ground / "file", "text");
  check_failed(ground.train("file"), {ground / "file", "is a file"});
  check_failed(ground.train("file/run"), {"is a file"});
  check_failed(run_train_cifar({"--model", "tiny_cnn", "--limit", "8", "--quiet", "--data",
                                ground / "data", "--allow-small", "--out", "/proc/heddle"}),
               {"/proc/heddle"});
}

TEST_CASE("two programs do not write into one folder") {
  const TrainingGround ground;
  Process first(train_cifar(ground.flags("run", {"--epochs", "100000"})));
  REQUIRE(first.wait_for("epoch 1/"));
  check_failed(ground.resume("run"), {"another process is writing there"});
  check_failed(ground.train("run", {"--overwrite"}), {"another process is writing there"});
  CHECK(first.running());
  first.send(SIGINT);
  CHECK(first.wait().exit_code == 130);
  CHECK(ground.resume("run", {"--eval-only"}).exit_code == 0);
}

TEST_CASE("a full disk is an error with a clear line, and the old checkpoint stands") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const std::string before = ground.read("run/checkpoint.safetensors");
  const int64_t half = static_cast<int64_t>(before.size() / 2);
  check_failed(ground.resume("run", {"--epochs", "2", "--quiet"}, {.file_size_limit = half}),
               {"checkpoint.safetensors", "File too large"});
  CHECK(ground.read("run/checkpoint.safetensors") == before);
  CHECK(ground.resume("run", {"--epochs", "2"}).exit_code == 0);
  const ProcessResult first = ground.train("new", {"--quiet"}, {.file_size_limit = half});
  check_failed(first, {"checkpoint"});
  CHECK_THAT(first.err, !ContainsSubstring("is kept"));  // there was none yet
  CHECK_FALSE(fs::exists(ground / "new/checkpoint.safetensors"));
  CHECK(ground.train("new", {"--epochs", "1"}).exit_code == 0);
}

TEST_CASE("kills at any moment of saving leave a checkpoint that loads") {
  const TrainingGround ground;
  std::vector<std::string> flags = ground.flags("run", {"--epochs", "100000", "--save-every", "1"});
  std::mt19937 random(1);
  int64_t last_step = 0;
  for (int round = 0; round < 50; ++round) {
    Process process(round == 0 ? train_cifar(flags)
                               : train_cifar({"--resume", "--out", ground / "run"}));
    REQUIRE(process.wait_for("epoch "));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    process.send(SIGKILL);
    REQUIRE(process.wait().signal == SIGKILL);
    const SafetensorsFile file(ground / "run/checkpoint.safetensors");
    const auto record = nlohmann::json::parse(file.metadata().at("heddle.train_cifar"));
    const int64_t step = record["state"]["step"];
    CHECK(step >= last_step);
    for (const auto& [name, tensor] : file.tensors())
      if (name == "optimizer/step/fc.bias") CHECK(tensor.to_vector<int64_t>()[0] == step);
    last_step = step;
  }
  CHECK(last_step > 0);
  CHECK(ground.resume("run", {"--eval-only"}).exit_code == 0);
  CHECK(ground.resume("run", {"--epochs", std::to_string(last_step / 7 + 1)}).exit_code == 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(ground / "run"))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("a loss that is not finite ends the run with step and layer, and the last good weights") {
  const TrainingGround ground;
  check_failed(ground.train("adam", {"--lr", "1e30", "--epochs", "2"}),
               {"step ", "not finite", "checkpoint is kept"});
  check_failed(ground.train("run", {"--lr", "1e30", "--epochs", "2", "--optimizer", "sgd"}),
               {"the loss is NaN", "step ", "first layer", "checkpoint is kept"});
  for (const auto& [name, tensor] :
       SafetensorsFile(ground / "run/checkpoint.safetensors").tensors())
    if (is_floating(tensor.dtype())) CHECK(all_finite(tensor));
  CHECK(ground.resume("run", {"--eval-only"}).exit_code == 0);
}

TEST_CASE("gradients without a finite norm end a run that clips them, on several devices too") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  NamedTensors tensors = saved_model(ground);
  const NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) {  // outputs stay small, but not conv2's gradient
    if (name == "bn1.bias") tensor = tensor * 0.0 + 1e30;
    if (name == "conv2.weight") tensor = tensor * 0.0 + 1e-35;
    if (name == "fc.weight") tensor = tensor * 1e15;
  }
  save_safetensors(ground / "steep", tensors);
  const std::vector<std::string> steep{"--clip-norm", "1",      "--epochs",
                                       "1",           "--init", ground / "steep"};
  for (const char* const devices : {"cpu", "cpu,cpu"}) {
    std::vector<std::string> flags = steep;
    flags.insert(flags.end(), {"--devices", devices});
    check_failed(ground.train(devices, flags),
                 {"step 1: the norm of the gradients is not finite", "checkpoint is kept"});
  }
}

TEST_CASE("NU-7: weights that a last step made infinite are not saved") {
  const TrainingGround ground;
  // An epoch of one step: its loss is finite, and what it makes of the weights is not.
  check_failed(ground.train("run", {"--lr", "3e38", "--weight-decay", "100", "--epochs", "1",
                                    "--optimizer", "sgd", "--limit", "8", "--quiet"}),
               {"step 1: ", "is not finite, and is not saved", "checkpoint is kept"});
  for (const auto& [name, tensor] :
       SafetensorsFile(ground / "run/checkpoint.safetensors").tensors())
    if (is_floating(tensor.dtype())) CHECK(all_finite(tensor));
}

TEST_CASE("data that change under a run end it with one line") {
  const TrainingGround ground;
  Process process(train_cifar(ground.flags("run", {"--epochs", "100000", "--quiet"})));
  while (ground.read("run/metrics.jsonl").find("\"step\":20,") == std::string::npos &&
         process.running())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fs::resize_file(ground / "data/data_batch_2.bin", 1000);
  check_failed(process.wait(), {"data_batch_2.bin"});
  CHECK(fs::exists(ground / "run/checkpoint.safetensors"));
}

TEST_CASE("weights of another model are refused with every name") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const NamedTensors good = saved_model(ground);
  const auto start_from = [&](const NamedTensors& tensors) {
    save_safetensors(ground / "init.safetensors", tensors, {{"format", "pt"}});
    return ground.train("new", {"--epochs", "1", "--init", ground / "init.safetensors", "-q"});
  };
  NamedTensors altered = good;
  std::erase_if(altered, [](const auto& named) { return named.first == "fc.bias"; });
  altered.emplace_back("foo", zeros({2}));
  for (auto& [name, tensor] : altered) {
    if (name == "conv1.weight") name = "module.conv1.weight";
    if (name == "conv2.weight") tensor = zeros({16, 72});
    if (name == "fc.weight") tensor = to(tensor, DType::kFloat16);
  }
  check_failed(start_from(altered), {"init.safetensors", "fc.bias", "foo", "module.conv1.weight",
                                     "conv2.weight", "fc.weight"});
  CHECK_FALSE(fs::exists(ground / "new"));
  CHECK(start_from(good).exit_code == 0);
}

TEST_CASE("a checkpoint of another model or optimizer is refused with every name, and stays") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const SafetensorsFile file(ground / "run/checkpoint.safetensors");
  const auto resume_from = [&](const NamedTensors& tensors) {
    save_safetensors(ground / "altered.safetensors", tensors, file.metadata());
    const std::string before = ground.read("altered.safetensors");
    const ProcessResult result = run_train_cifar({"--resume", ground / "altered.safetensors",
                                                  "--epochs", "2", "--out", ground / "new", "-q"});
    CHECK(ground.read("altered.safetensors") == before);
    CHECK_FALSE(fs::exists(ground / "new"));
    return result;
  };
  NamedTensors model = file.tensors(), optimizer = model;
  std::erase_if(model, [](const auto& named) { return named.first == "model/fc.bias"; });
  for (auto& [name, tensor] : model) {
    if (name == "model/conv1.weight") name = "model/module.conv1.weight";
    if (name == "model/conv2.weight") tensor = zeros({16, 72});
    if (name == "model/fc.weight") tensor = to(tensor, DType::kFloat16);
  }
  check_failed(resume_from(model), {"altered.safetensors", "missing: ", "conv1.weight", "fc.bias",
                                    "unexpected: module.conv1.weight", "conv2.weight is float32",
                                    "fc.weight is float16"});
  std::erase_if(optimizer, [](const auto& named) { return named.first.ends_with("/fc.bias"); });
  for (const auto& [name, tensor] : file.tensors())
    if (name == "model/fc.bias") optimizer.emplace_back(name, tensor);
  check_failed(resume_from(optimizer), {"altered.safetensors", "missing: ", "exp_avg/fc.bias",
                                        "exp_avg_sq/fc.bias", "step/fc.bias"});
}

TEST_CASE("a checkpoint that is cut, foreign or missing is refused") {
  const TrainingGround ground;
  check_failed(ground.resume("run"), {"checkpoint.safetensors"});
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const std::string good = ground.read("run/checkpoint.safetensors");
  write_text(ground / "cut", good.substr(0, good.size() / 2));
  check_failed(run_train_cifar({"--resume", ground / "cut"}), {"cut"});
  write_text(ground / "text", "no tensors at all");
  check_failed(run_train_cifar({"--resume", ground / "text"}), {"text"});
  check_failed(run_train_cifar({"--resume", ground / "run/model.safetensors"}),
               {"is no checkpoint of a run"});
  check_failed(ground.train("new", {"--init", ground / "cut"}), {"cut"});
  check_failed(ground.train("new", {"--init", ground / "nowhere"}), {"nowhere"});
  CHECK_FALSE(fs::exists(ground / "new"));
}

TEST_CASE("a pipe in the place of a file is refused and not waited for") {
  const TrainingGround ground;
  const std::string pipe = ground / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const ProcessOptions soon{.timeout = 20.0};
  check_failed(ground.train("new", {"--init", pipe}, soon), {pipe, "is not a file"});
  check_failed(run_train_cifar({"--resume", pipe}, soon), {pipe, "is not a file"});
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  fs::remove(ground / "run/metrics.jsonl");
  REQUIRE(mkfifo((ground / "run/metrics.jsonl").c_str(), 0600) == 0);
  check_failed(ground.resume("run", {"--epochs", "2"}, soon), {"cannot write", "metrics.jsonl"});
  REQUIRE(mkfifo((ground / "data/batches.meta.txt").c_str(), 0600) == 0);
  check_failed(ground.train("new", {}, soon), {"batches.meta.txt is not an ordinary file"});
}

TEST_CASE("a checkpoint with a damaged record is refused") {
  const TrainingGround ground;
  REQUIRE(ground.train("run", {"--epochs", "1"}).exit_code == 0);
  const SafetensorsFile file(ground / "run/checkpoint.safetensors");
  const auto good = nlohmann::ordered_json::parse(file.metadata().at("heddle.train_cifar"));
  const auto check_record = [&](const std::string& record, const std::string& said) {
    save_safetensors(ground / "bad.safetensors", file.tensors(), {{"heddle.train_cifar", record}});
    check_failed(run_train_cifar({"--resume", ground / "bad.safetensors", "--epochs", "2", "--out",
                                  ground / "bad"}),
                 {said});
  };
  check_record("{", "cannot be read");
  check_record("[]", "cannot be read");
  auto record = good;
  record["settings"]["batch_size"] = 0;
  check_record(record.dump(), "--batch-size");
  record = good;
  record["settings"]["lr"] = {1, 2};
  check_record(record.dump(), "--lr");
  record = good;
  record["state"]["step"] = -1;
  check_record(record.dump(), "state.step");
  record = good;
  record["state"]["batches_done"] = 1'000'000;
  check_record(record.dump(), "batches_done");
  record = good;
  record["provider_choices"] = {{"conv2d", "magic"}};
  check_record(record.dump(), "magic");
  record["provider_choices"] = 7;
  check_record(record.dump(), "provider_choices");
}

}  // namespace heddle::test
