#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

namespace heddle::test {

/// The command line of the built train_cifar.
inline std::vector<std::string> train_cifar(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{HEDDLE_TRAIN_CIFAR};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

inline ProcessResult run_train_cifar(const std::vector<std::string>& arguments,
                                     const ProcessOptions& options = {}) {
  return run_process(train_cifar(arguments), options);
}

/// One line that names the program, and nothing else.
inline void check_one_line(const ProcessResult& result) {
  CHECK(result.err.starts_with("train_cifar: "));
  CHECK(result.err.find('\n') == result.err.size() - 1);
}

/// A folder with a small data set in "data", and runs beside it.
class TrainingGround {
 public:
  explicit TrainingGround(int per_file = 10, int n_test = 12) {
    write_small_cifar(folder_.path() / "data", per_file, n_test);
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  /// Flags of a quick training into `out`, with `more` behind.
  std::vector<std::string> flags(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{
        "--data", folder_ / "data", "--allow-small", "--model",    "tiny_cnn", "--batch-size",
        "8",      "--augment",      "crop_flip",     "--provider", "native",   "--threads",
        "1",      "--out",          folder_ / out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  ProcessResult train(const std::string& out, const std::vector<std::string>& more = {},
                      const ProcessOptions& options = {}) const {
    return run_train_cifar(flags(out, more), options);
  }

  /// Continues the run in `out`.
  ProcessResult resume(const std::string& out, const std::vector<std::string>& more = {},
                       const ProcessOptions& options = {}) const {
    std::vector<std::string> arguments{"--resume", "--out", folder_ / out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_train_cifar(arguments, options);
  }

  std::string read(const std::string& path) const { return read_text(folder_ / path); }

  /// The lines of a run's metrics.jsonl of one kind.
  std::vector<nlohmann::json> metrics(const std::string& out, const std::string& event) const {
    std::vector<nlohmann::json> result;
    std::istringstream lines(read(out + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json entry = nlohmann::json::parse(line);
      if (entry["event"] == event) result.push_back(std::move(entry));
    }
    return result;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace heddle::test
