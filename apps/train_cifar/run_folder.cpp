#include "heddle/apps/train_cifar/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "heddle/core/error.h"
#include "heddle/nn/checkpoint/atomic_file.h"

namespace heddle::train_cifar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunFiles[] = {"checkpoint.safetensors", "model.safetensors", "config.json",
                                     "metrics.jsonl"};

bool holds_run(const fs::path& path) {
  std::error_code ignored;
  for (const char* name : kRunFiles)
    if (fs::exists(path / name, ignored) && fs::file_size(path / name, ignored) > 0) return true;
  return false;
}

/// The nearest folder above `path` that exists: where the first new one would be made.
fs::path existing_parent(fs::path path) {
  path = fs::absolute(path);
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path())
    path = path.parent_path();
  return path;
}

/// Whether a line of metrics.jsonl tells of something after `step` and `epoch`, or of nothing.
bool is_later(const std::string& line, int64_t step, int64_t epoch) {
  const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return true;
  const auto number = [&](const char* key) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  const bool is_step = entry.find("event") != entry.end() && entry["event"] == "step";
  return is_step ? number("step") > step : number("epoch") > epoch;
}

}  // namespace

void RunFolder::check(const fs::path& path, FolderUse use) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_directory(path, ignored))
    fail("--out {}: is a file, expected a folder", path.string());
  const fs::path parent = existing_parent(path);
  if (!fs::is_directory(parent, ignored))
    fail("--out {}: {} is a file, expected a folder", path.string(), parent.string());
  if (access(parent.c_str(), W_OK | X_OK) != 0)
    fail("--out {}: cannot be written: {}", path.string(), std::strerror(errno));
  if (use == FolderUse::kNew && holds_run(path))
    fail(
        "--out {}: already holds a run; continue it with --resume, replace it with --overwrite, "
        "or choose another folder",
        path.string());
}

RunFolder::RunFolder(const fs::path& path, FolderUse use) : path_(path) {
  check(path_, use);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail("--out {}: cannot be made: {}", path_.string(), error.message());
  lock();
  try {
    check(path_, use);  // another process may have begun and ended a run meanwhile
    if (use == FolderUse::kOverwrite)
      for (const char* name : kRunFiles) fs::remove(path_ / name);
    open_metrics();
  } catch (...) {
    close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (metrics_file_ >= 0) close(metrics_file_);
  close(lock_);
}

/// A lock on the folder itself goes with the process, however it ends, and leaves no file behind.
void RunFolder::lock() {
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) fail("--out {}: cannot be opened: {}", path_.string(), std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int cause = errno;
  close(lock_);
  if (cause == EWOULDBLOCK) fail("--out {}: another process is writing there", path_.string());
  fail("--out {}: cannot be locked: {}", path_.string(), std::strerror(cause));
}

void RunFolder::open_metrics() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;  // no waiting pipe
  metrics_file_ = open(metrics().c_str(), kFlags, 0666);
  if (metrics_file_ < 0) fail("cannot write {}: {}", metrics().string(), std::strerror(errno));
}

void RunFolder::append_metrics(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(metrics_file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write {}: {}", metrics().string(), std::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

void RunFolder::trim_metrics(int64_t step, int64_t epoch) {
  std::string kept;
  std::ifstream file(metrics(), std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (!is_later(line, step, epoch)) kept += line + "\n";
  close(metrics_file_);
  metrics_file_ = -1;
  write_file_atomically(metrics(), kept);
  open_metrics();
}

}  // namespace heddle::train_cifar
