#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

/// What tests of parallel_lab ask of its run, on whatever devices.
namespace heddle::test {

inline nlohmann::json lab_json(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  arguments.insert(arguments.end(), {"--json", "-"});
  const ProcessResult result = run_process(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

inline int lab_exit_code(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  return run_process(arguments).exit_code;
}

/// All replicas have one fingerprint after each step, and another one than before it.
inline void check_steps(const nlohmann::json& run, size_t n_steps, size_t n_replicas) {
  REQUIRE(run.at("steps").size() == n_steps);
  std::set<std::string> weights;
  for (const nlohmann::json& step : run.at("steps")) {
    CHECK(std::isfinite(step.at("loss").get<double>()));
    for (const char* what : {"gradients", "weights"}) {
      const auto prints = step.at(what).get<std::vector<std::string>>();
      CHECK(prints.size() == n_replicas);
      CHECK(std::set<std::string>(prints.begin(), prints.end()).size() == 1);
    }
    weights.insert(step.at("weights")[0].get<std::string>());
  }
  CHECK(weights.size() == n_steps);
}

/// All links together carry 2(N-1) times the bytes; no replica much more than its part.
inline int64_t check_least_bytes(const nlohmann::json& run) {
  const auto bytes = run.at("bytes_by_link").get<std::vector<std::vector<int64_t>>>();
  const double least = run.at("least_bytes");
  int64_t all = 0;
  for (const std::vector<int64_t>& row : bytes) {
    int64_t sent = 0;
    for (const int64_t n : row) sent += n;
    CHECK(static_cast<double>(sent) == Approx(least).epsilon(0.01));
    all += sent;
  }
  CHECK(static_cast<double>(all) == Approx(least * static_cast<double>(bytes.size())));
  return all;
}

inline void check_lost(const nlohmann::json& run, const std::string& who) {
  const nlohmann::json& lost = run.at("lost");
  CHECK_THAT(lost.at("error").get<std::string>(), ContainsSubstring(who + ": lost"));
  CHECK(lost.at("lanes_ended") == run.at("devices").size());
  CHECK(lost.at("weights_unchanged") == true);
  CHECK(lost.at("seconds") < 60.0);
  CHECK(lost.at("loss_of_repeat") < run.at("steps").back().at("loss"));
  CHECK(run.at("same_as_without_faults") == true);
}

/// What a replica did in a timeline.
inline std::set<std::string> works_of(const nlohmann::json& timeline, int replica) {
  std::set<std::string> works;
  for (const nlohmann::json& span : timeline.at("spans"))
    if (span.at("replica") == replica) works.insert(span.at("work").get<std::string>());
  return works;
}

inline int count_in(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace heddle::test
