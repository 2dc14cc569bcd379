#include "heddle/apps/bench_step/process.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "heddle/core/error.h"

namespace heddle::bench {

int64_t minor_page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Not from getrusage: its figure takes over that of the process which started this one.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

std::string run_self(const std::vector<std::string>& arguments) {
  std::string command =
      fmt::format("'{}'", std::filesystem::read_symlink("/proc/self/exe").string());
  for (const std::string& argument : arguments) command += fmt::format(" '{}'", argument);
  std::FILE* const pipe = popen(command.c_str(), "r");
  HEDDLE_CHECK(pipe != nullptr, "bench_step: cannot start {}", command);
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, n);
  const int status = pclose(pipe);
  HEDDLE_CHECK(status == 0, "bench_step: status {} of {}", status, command);
  return output;
}

}  // namespace heddle::bench
