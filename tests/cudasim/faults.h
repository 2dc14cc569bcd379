#pragma once

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include <cudasim/control.h>
#include <cudasim/execution.h>
#include <cudasim/findings.h>
#include "heddle/tests/cudasim/support.h"

namespace heddle::test {

using cudasim::Checks;
using cudasim::ChecksScope;
using cudasim::Finding;
using cudasim::FindingKind;
using Triple = std::array<uint32_t, 3>;

/// The line of a test here that holds this text after "// line: ".
inline int line_with(const std::string& test, const std::string& text) {
  std::ifstream source(HEDDLE_SOURCE_DIR "/tests/cudasim/" + test);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.find("// line: " + text) != std::string::npos) return number;
  }
  return -1;
}

/// Execution settings for one test.
class ExecutionScope {
 public:
  explicit ExecutionScope(const cudasim::ExecutionSettings& settings)
      : outer_(cudasim::execution_settings()) {
    cudasim::set_execution_settings(settings);
  }
  ~ExecutionScope() { cudasim::set_execution_settings(outer_); }
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  cudasim::ExecutionSettings outer_;
};

/// Keeps the findings of a planted fault.
class Expected {
 public:
  /// The only finding, which is of this kind.
  Finding only(FindingKind kind) const {
    const std::vector<Finding> found = scope_.found();
    std::string all;
    for (const Finding& finding : found) all += to_text(finding);
    INFO(all);
    REQUIRE(found.size() == 1);
    REQUIRE(found[0].kind == kind);
    return found[0];
  }
  std::vector<Finding> all() const { return scope_.found(); }
  void none() const {
    std::string all;
    for (const Finding& finding : scope_.found()) all += to_text(finding);
    INFO(all);
    REQUIRE(scope_.found().empty());
  }

 private:
  static cudasim::ExecutionSettings quiet() {
    cudasim::ExecutionSettings settings = cudasim::execution_settings();
    settings.print_failures = false;
    return settings;
  }

  ExecutionScope failures_{quiet()};
  cudasim::ExpectFindings scope_;
};

/// A failed launch sticks to its device: what follows begins with a new machine, without the
/// arrays.
inline void forget_errors() {
  cudasim::reset(cudasim::machine());
  static_cast<void>(cudaGetLastError());
}

/// A launch that must fail, after which the error is taken away.
template <class... Parameters, class... Arguments>
void run_failing(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  REQUIRE(try_run(kernel, config, std::forward<Arguments>(arguments)...) != cudaSuccess);
  forget_errors();
}

}  // namespace heddle::test
