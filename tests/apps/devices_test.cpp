// Training on several logical replicas, and going on with another number of them.
#include <filesystem>

#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

using Flags = std::vector<std::string>;

Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<double> losses(const TrainingGround& ground, const std::string& out) {
  std::vector<double> result;
  for (const auto& step : ground.metrics(out, "step")) result.push_back(step["loss"]);
  return result;
}

}  // namespace

TEST_CASE("train_cifar: the same shards give the same weights on any number of devices", "[apps]") {
  const TrainingGround ground;
  const Flags shards{"--shards", "4", "--epochs", "1", "--clip-norm", "1"};
  REQUIRE(ground.train("one", with(shards, {"--devices", "cpu"})).exit_code == 0);
  REQUIRE(ground.train("two", with(shards, {"--devices", "cpu,cpu"})).exit_code == 0);
  REQUIRE(ground.train("four", with(shards, {"--devices", "cpu,cpu,cpu,cpu"})).exit_code == 0);
  const std::string one = ground.read("one/model.safetensors");
  CHECK(ground.read("two/model.safetensors") == one);
  CHECK(ground.read("four/model.safetensors") == one);
  CHECK(losses(ground, "two") == losses(ground, "one"));
}

TEST_CASE("train_cifar: a run goes on with another number of devices (DP-4)", "[apps]") {
  const TrainingGround ground;
  const Flags start{"--shards", "2", "--devices", "cpu,cpu"};
  REQUIRE(ground.train("whole", with(start, {"--epochs", "2"})).exit_code == 0);
  REQUIRE(ground.train("cut", with(start, {"--epochs", "1"})).exit_code == 0);
  REQUIRE(ground.resume("cut", {"--epochs", "2", "--devices", "cpu"}).exit_code == 0);
  CHECK(ground.read("cut/model.safetensors") == ground.read("whole/model.safetensors"));
  CHECK(losses(ground, "cut") == losses(ground, "whole"));
}

TEST_CASE("train_cifar: float16 on two devices goes on elsewhere with the same bits", "[apps]") {
  const TrainingGround ground;
  const Flags half{"--precision", "fp16", "--shards", "2", "--devices", "cpu,cpu"};
  REQUIRE(ground.train("whole", with(half, {"--epochs", "2"})).exit_code == 0);
  REQUIRE(ground.train("cut", with(half, {"--epochs", "1"})).exit_code == 0);
  REQUIRE(ground.resume("cut", {"--epochs", "2", "--devices", "cpu"}).exit_code == 0);
  CHECK_FALSE(losses(ground, "whole").empty());
  CHECK(ground.read("cut/model.safetensors") == ground.read("whole/model.safetensors"));
}

TEST_CASE("train_cifar: synchronised batch-norm gives one device's losses, however it is cut",
          "[apps]") {
  const TrainingGround ground;
  const Flags sync{"--sync-batch-norm", "--epochs", "1"};
  REQUIRE(ground.train("whole", with(sync, {"--devices", "cpu"})).exit_code == 0);
  const ProcessResult two = ground.train("two", with(sync, {"--devices", "cpu,cpu"}));
  REQUIRE(two.exit_code == 0);
  CHECK_THAT(two.out, ContainsSubstring("; batch-norm synchronised"));
  const Flags cut = with(sync, {"--shards", "4", "--precision", "bf16"});
  REQUIRE(ground.train("one", with(cut, {"--devices", "cpu"})).exit_code == 0);
  REQUIRE(ground.train("four", with(cut, {"--devices", "cpu,cpu,cpu,cpu"})).exit_code == 0);
  const std::vector<double> expected = losses(ground, "whole"), got = losses(ground, "two");
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(2e-3));
  CHECK(ground.read("four/model.safetensors") == ground.read("one/model.safetensors"));
}

TEST_CASE("train_cifar: the exchange in use is told", "[apps]") {
  const TrainingGround ground;
  const Flags two{"--devices", "cpu,cpu", "--epochs", "1"};
  const ProcessResult ring = ground.train("ring", with(two, {"--exchange", "ring"}));
  REQUIRE(ring.exit_code == 0);
  CHECK_THAT(ring.out,
             ContainsSubstring("replicas  2 on cpu,cpu; a batch in 2 shards; exchange ring"));
}

}  // namespace heddle::test
