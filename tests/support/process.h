#pragma once

#include <sys/types.h>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "heddle/tests/support/temporary_folder.h"

namespace heddle::test {

/// How a program ended and what it printed.
struct ProcessResult {
  int exit_code = -1;  ///< -1 where a signal ended it.
  int signal = 0;
  std::string out;
  std::string err;
  double seconds = 0.0;
};

struct ProcessOptions {
  std::filesystem::path directory;       ///< Where it runs; empty: here.
  std::vector<std::string> environment;  ///< "NAME=value" on top of this program's.
  int64_t file_size_limit = 0;           ///< Units: bytes, as `ulimit -f`; 0: none.
  double timeout = 300.0;                ///< Units: seconds; then it is killed.
};

/// A running program with its output in files. Killed where it still runs at the end of its life.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const;
  bool running();
  std::string out() const;  ///< What it has printed so far.
  std::string err() const;
  /// Waits until `text` is in its output. False: it ended, or `seconds` passed, without.
  bool wait_for(const std::string& text, double seconds = 240.0);
  ProcessResult wait();

 private:
  TemporaryFolder scratch_;  // its output
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  double timeout_;
  std::chrono::steady_clock::time_point start_;
};

ProcessResult run_process(const std::vector<std::string>& command,
                          const ProcessOptions& options = {});

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace heddle::test
