#pragma once

#include <string>

namespace heddle::apps {

/// `--trace FILE`: spans are recorded while it lives and written at the end, whole or not at all.
/// An error that ends the program leaves a trace of what led to it. An empty path: nothing.
class TraceFile {
 public:
  /// Errors: what is there is no ordinary file, or the folder cannot be written.
  TraceFile(std::string program, std::string path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Writes it, and returns a line that says so; empty without a path. Errors: it cannot be
  /// written.
  std::string finish();

 private:
  void write();

  std::string program_;
  std::string path_;
  bool recording_ = false;
};

}  // namespace heddle::apps
