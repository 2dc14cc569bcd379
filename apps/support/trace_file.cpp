#include "heddle/apps/support/trace_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "heddle/apps/support/streams.h"
#include "heddle/core/error.h"
#include "heddle/core/trace.h"
#include "heddle/nn/checkpoint/atomic_file.h"

namespace heddle::apps {
namespace {

/// A device or a pipe must not be replaced by a file.
void check_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    fail("--trace {}: is not an ordinary file", path);
  try {
    const AtomicFile trial(path);
  } catch (const Error& error) {
    fail("--trace {}: cannot be written: {}", path, error.what());
  }
}

}  // namespace

TraceFile::TraceFile(std::string program, std::string path)
    : program_(std::move(program)), path_(std::move(path)) {
  if (path_.empty()) return;
  check_place(path_);
  set_thread_name("training");
  start_trace();
  recording_ = true;
}

TraceFile::~TraceFile() {
  if (!recording_) return;
  try {
    write();
  } catch (const std::exception& error) {
    print_error(program_, error.what());
  }
}

void TraceFile::write() {
  stop_trace();
  recording_ = false;
  AtomicFile file(path_);
  write_trace(program_, [&](std::string_view text) { file.write(text); });
  file.commit();
}

std::string TraceFile::finish() {
  if (!recording_) return "";
  write();
  const TraceCounts counts = trace_counts();
  std::string line = fmt::format("trace     {}: {} spans", path_, counts.recorded);
  if (counts.left_out > 0) line += fmt::format(", {} more were left out", counts.left_out);
  return line;
}

}  // namespace heddle::apps
