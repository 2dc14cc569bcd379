// Training in float16: loss scaling, what a checkpoint keeps of it, and how a run ends that no
// scale can save.
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

void check_done(const ProcessResult& result) {
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace

TEST_CASE("float16 arithmetic trains float32 weights and resumes with the same bits") {
  const TrainingGround ground;
  const std::vector<std::string> half{"--precision", "fp16", "--clip-norm", "1"};
  const auto epochs = [&](const char* n) {
    std::vector<std::string> flags = half;
    flags.insert(flags.end(), {"--epochs", n});
    return flags;
  };
  check_done(ground.train("whole", epochs("2")));
  check_done(ground.train("run", epochs("1")));
  check_done(ground.resume("run", {"--epochs", "2"}));
  CHECK(ground.read("whole/model.safetensors") == ground.read("run/model.safetensors"));
  for (const auto& [name, tensor] : SafetensorsFile(ground / "run/model.safetensors").tensors())
    CHECK((tensor.dtype() == DType::kFloat32 || name == "bn1.num_batches_tracked"));
  const auto record = nlohmann::json::parse(
      SafetensorsFile(ground / "run/checkpoint.safetensors").metadata().at("heddle.train_cifar"));
  const size_t n_taken = ground.metrics("run", "step").size();
  const size_t n_skipped = ground.metrics("run", "skip").size();
  CHECK(n_taken + n_skipped == 14);
  CHECK(record["state"]["step"] == n_taken);
  CHECK(record["scaler"]["scale"].get<double>() ==
        65536.0 / static_cast<double>(int64_t{1} << n_skipped));
}

TEST_CASE("a float16 run that overflows at every scale ends with the layer's name") {
  const TrainingGround ground(/*per_file=*/70);
  const ProcessResult result = ground.train(
      "run", {"--precision", "fp16", "--optimizer", "sgd", "--lr", "1e9", "--epochs", "1", "-q"});
  CHECK(result.exit_code == 1);
  check_one_line(result);
  for (const char* text : {"32 steps in a row were skipped", "loss scale of 1;",
                           "first layer whose output is not finite: conv", "checkpoint is kept"})
    CHECK_THAT(result.err, ContainsSubstring(text));
}

}  // namespace heddle::test
