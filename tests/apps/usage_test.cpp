// CL-1 of the list of known bugs, and its neighbours: every wrong command line ends with exit code
// 2 at once, with one line that names flag, value and what is allowed, and leaves no trace.
#include <filesystem>

#include "heddle/core/device.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

struct Wrong {
  std::vector<std::string> arguments;
  std::vector<std::string> said;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

/// `out`: where the program may write; without it, it is not told where to.
void check_refused(const Wrong& wrong, bool out = true) {
  INFO(joined(wrong.arguments));
  const TemporaryFolder folder;
  std::vector<std::string> arguments = wrong.arguments;
  if (out) arguments.insert(arguments.begin(), {"--out", folder / "run"});
  const ProcessResult result = run_train_cifar(arguments, {.directory = folder.path()});
  CHECK(result.exit_code == 2);
  CHECK(result.seconds < 1.0);
  CHECK(result.out.empty());
  check_one_line(result);
  for (const std::string& text : wrong.said) CHECK_THAT(result.err, ContainsSubstring(text));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace

TEST_CASE("wrong learning rates are refused") {
  for (const char* value : {"-0.1", "0", "nan", "inf", "-inf", "1e-3x", "", "1e999", "0x10"})
    check_refused({{"--lr", value},
                   {"--lr", "\"" + std::string(value) + "\" is not allowed", "greater than 0"}});
}

TEST_CASE("wrong batch sizes are refused") {
  for (const char* value : {"0", "-1", "12abc", "99999999999", "1e2", " 8", "3.0"}) {
    check_refused({{"--batch", value},
                   {"--batch", "\"" + std::string(value) + "\"", "whole number from 1 to 65536"}});
    check_refused({{"--batch-size=" + std::string(value)}, {"--batch-size", "from 1 to 65536"}});
  }
}

TEST_CASE("wrong numbers of other flags are refused with their ranges") {
  check_refused(
      {{"--workers", "-1"}, {"--workers", "\"-1\"", "auto or a whole number from 0 to 256"}});
  check_refused({{"--workers", "2x"}, {"--workers", "\"2x\""}});
  check_refused({{"--epochs", "0"}, {"--epochs", "\"0\"", "from 1 to 1000000"}});
  check_refused({{"--threads", "-2"}, {"--threads", "\"-2\"", "from 0 to 1024"}});
  check_refused({{"--seed", "-1"}, {"--seed", "\"-1\"", "from 0 to"}});
  check_refused({{"--limit", "0"}, {"--limit", "\"0\"", "from 1 to"}});
  check_refused({{"--save-every", "0"}, {"--save-every", "\"0\"", "from 1 to"}});
  check_refused({{"--accumulate", "0"}, {"--accumulate", "\"0\"", "from 1 to"}});
  check_refused({{"--weight-decay", "-1"}, {"--weight-decay", "\"-1\"", "of at least 0"}});
  check_refused({{"--label-smoothing", "1"}, {"--label-smoothing", "\"1\"", "less than 1"}});
  check_refused({{"--clip-norm", "nan"}, {"--clip-norm", "\"nan\"", "of at least 0"}});
  check_refused(
      {{"--optimizer", "sgd", "--momentum", "1"}, {"--momentum", "\"1\"", "less than 1"}});
}

TEST_CASE("unknown words are refused with the known ones") {
  check_refused({{"--model", "vgg"}, {"--model", "\"vgg\"", "simple_cnn, resnet18"}});
  check_refused({{"--optimizer", "lion"}, {"--optimizer", "\"lion\"", "adam, adamw, sgd"}});
  check_refused({{"--schedule", "poly"}, {"--schedule", "\"poly\"", "constant, step, cosine"}});
  check_refused({{"--augment", "mix"}, {"--augment", "\"mix\"", "none, flip, crop_flip"}});
  check_refused({{"--graph", "on"}, {"--graph on needs CUDA devices", "--devices is cpu"}});
  check_refused({{"--tf32"}, {"--tf32", "CUDA devices and --provider auto or vendor"}});
  check_refused({{"--staging", "disk"}, {"--staging", "\"disk\"", "uint8, float, resident"}});
  check_refused(
      {{"--staging", "resident"}, {"--staging resident needs CUDA devices", "--devices is cpu"}});
  check_refused({{"--provider", "gpu"}, {"--provider", "\"gpu\"", "auto, native, vendor"}});
  check_refused({{"--precision", "int8"}, {"--precision", "\"int8\"", "fp32, bf16, fp16"}});
}

TEST_CASE("devices that are not there are refused") {
  check_refused({{"--devices", "9"}, {"--devices", "\"9\"", "cpu", "cuda:N"}});
  check_refused(
      {{"--devices", "cuda:77"},
       {"--devices", "\"cuda:77\"", built_with_cuda() ? "NVIDIA" : "built without CUDA"}});
  check_refused({{"--shards", "8", "--accumulate", "2"}, {"--shards", "--accumulate"}});
  check_refused({{"--devices", ""}, {"--devices"}});
}

TEST_CASE("an unknown flag is refused with the nearest one") {
  check_refused({{"--bacth", "64"}, {"--bacth", "did you mean --batch?"}});
  check_refused({{"--batchsize", "64"}, {"--batchsize", "did you mean --batch-size?"}});
  check_refused({{"--epoch", "1"}, {"--epoch", "did you mean --epochs?"}});
  check_refused({{"--wieght-decay=1"}, {"--wieght-decay", "did you mean --weight-decay?"}});
  check_refused({{"--xylophone"}, {"unknown flag --xylophone;"}});
  check_refused({{"-b", "64"}, {"unknown flag -b"}});
  check_refused({{"train"}, {"\"train\" is no flag"}});
  check_refused({{"--"}, {"\"--\" is no flag"}});
}

TEST_CASE("a flag without its value and a value without need are refused") {
  check_refused({{"--seed"}, {"--seed needs a value"}});
  check_refused({{"--seed", "--lr", "0.1"}, {"--seed needs a value"}});
  check_refused({{"--lr="}, {"--lr needs a value"}});
  check_refused({{"--resume", ""}, {"--resume", "\"\""}});
  check_refused({{"--resume=", "--out", "x"}, {"--resume", "\"\""}});
  check_refused({{"--nesterov=1"}, {"--nesterov", "\"1\"", "no value"}});
}

TEST_CASE("the same flag twice is refused") {
  check_refused({{"--lr", "0.1", "--lr", "0.1"}, {"--lr is given twice"}});
  check_refused({{"--batch", "8", "--batch-size", "8"}, {"--batch-size is given twice"}});
  check_refused({{"--nesterov", "--nesterov"}, {"--nesterov is given twice"}});
  check_refused({{"--out", "elsewhere"}, {"--out is given twice"}});
}

TEST_CASE("flags that contradict each other are refused") {
  check_refused({{"--momentum", "0.9"}, {"--momentum", "--optimizer sgd"}});
  check_refused({{"--optimizer", "sgd", "--nesterov"}, {"--nesterov", "--momentum"}});
  check_refused({{"--optimizer", "sgd", "--beta1", "0.5"}, {"--beta1", "adam"}});
  check_refused({{"--lr-gamma", "0.5"}, {"--lr-gamma", "--schedule step"}});
  check_refused({{"--lr-min", "0.5"}, {"--lr-min", "--schedule cosine"}});
  check_refused({{"--schedule", "one_cycle", "--warmup", "5"}, {"--warmup", "one_cycle"}});
  check_refused({{"--batch", "2", "--accumulate", "3"}, {"--accumulate", "\"3\"", "at most"}});
  check_refused({{"--resume", "--overwrite"}, {"--resume", "--overwrite"}});
  check_refused({{"--resume", "--init", "a"}, {"--resume", "--init"}});
  check_refused({{"--eval-only"}, {"--eval-only", "--init", "--resume"}});
  check_refused({{"--allow-small"}, {"--allow-small", "--data"}});
  check_refused({{"--exchange", "ring", "--shards", "2"}, {"--exchange ring", "--shards"}});
  check_refused({{"--exchange", "direct"}, {"--exchange", "several --devices"}});
  check_refused({{"--staging", "float"}, {"--staging", "CUDA --devices"}});
  check_refused(
      {{"--sync-batch-norm", "--accumulate", "2"}, {"--sync-batch-norm", "--accumulate"}});
  check_refused({{"--sync-batch-norm", "--shards", "257"}, {"--sync-batch-norm", "256", "257"}});
  check_refused({{"--overwrite"}, {"--overwrite means something only with --out"}}, false);
  check_refused({{"--download", "--data", "d", "--allow-small"}, {"--download", "--allow-small"}});
}

TEST_CASE("what only training reads is refused where there is no training") {
  const std::vector<std::vector<std::string>> of_training{
      {"--epochs", "2"},         {"--lr", "0.1"},       {"--optimizer", "sgd"},
      {"--weight-decay", "0.1"}, {"--accumulate", "2"}, {"--label-smoothing", "0.1"},
      {"--clip-norm", "1"},      {"--beta1", "0.5"},    {"--schedule", "cosine"},
      {"--warmup", "3"},         {"--augment", "flip"}, {"--seed", "3"},
      {"--shards", "2"},         {"--graph", "off"},    {"--exchange", "ring"},
      {"--save-every", "5"},     {"--overwrite"},       {"--sync-batch-norm"}};
  const auto with = [](std::vector<std::string> action, const std::vector<std::string>& more) {
    action.insert(action.end(), more.begin(), more.end());
    return action;
  };
  for (const auto& flag : of_training) {
    const std::string& name = flag.front();
    check_refused(
        {with({"--eval-only", "--init", "w"}, flag), {name + " means nothing with --eval-only"}},
        false);
    check_refused({with({"--summary"}, flag), {name + " means nothing with --summary"}}, false);
  }
  check_refused(
      {{"--eval-only", "--resume", "w", "--lr", "0.1"}, {"--lr means nothing with --eval-only"}},
      false);
  check_refused({{"--list-devices", "--lr", "0.1"}, {"--lr means nothing with --list-devices"}},
                false);
  for (const auto& flag : {std::vector<std::string>{"--data", "d"},
                           {"--init", "w"},
                           {"--trace", "t"},
                           {"--devices", "cpu"},
                           {"--precision", "bf16"},
                           {"--limit", "5"}})
    check_refused({with({"--summary"}, flag), {flag.front() + " means nothing with --summary"}},
                  false);
  check_refused({{"--summary", "--list-devices"}, {"--summary means nothing with --list-devices"}},
                false);
  check_refused({{"--summary", "--eval-only"}, {"--eval-only means nothing with --summary"}},
                false);
  check_refused({{"--eval-only", "--init", "w"}, {"--out means something only with --resume"}});
  check_refused({{"--eval-only", "--resume", "w"}, {"--out means something only with --resume"}});
  check_refused({{"--summary"}, {"--out means something only with --resume"}});
  check_refused({{"--eval-only", "--init", "w", "--devices", "cpu,cpu"},
                 {"--eval-only runs on one device, --devices names 2"}},
                false);
}

TEST_CASE("the flags help and version answer and exit 0") {
  for (const char* flag : {"--help", "-h"}) {
    const ProcessResult help = run_train_cifar({flag});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    for (const char* name : {"--batch-size", "--resume", "--provider", "--version"})
      CHECK_THAT(help.out, ContainsSubstring(name));
  }
  const ProcessResult version = run_train_cifar({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out == "train_cifar " HEDDLE_TEST_VERSION "\n");
}

}  // namespace heddle::test
