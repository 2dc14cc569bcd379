#include "heddle/nn/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <system_error>

#include "heddle/core/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

/// Past a file-size limit the kernel sends SIGXFSZ, which ends the process, before write() may
/// report the error. Held back on this thread while it lives, and dropped.
class HoldFileSizeSignal {
 public:
  HoldFileSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &previous_);
  }
  ~HoldFileSizeSignal() {
    if (sigismember(&previous_, SIGXFSZ) == 1) return;
    const timespec at_once{};
    while (sigtimedwait(&set_, nullptr, &at_once) == SIGXFSZ) {
    }
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  HoldFileSizeSignal(const HoldFileSizeSignal&) = delete;
  HoldFileSizeSignal& operator=(const HoldFileSizeSignal&) = delete;

 private:
  sigset_t set_{};
  sigset_t previous_{};
};

std::string temporary_prefix(const fs::path& target) {
  return "." + target.filename().string() + ".tmp-";
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// Removes what writers that were killed have left. A living writer, of any process, holds the lock
/// of its file.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = temporary_prefix(target);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(target), ignored)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const int descriptor = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) continue;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
    close(descriptor);
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  remove_leftovers(target_);
  open_temporary();
}

void AtomicFile::open_temporary() {
  static std::atomic<unsigned> counter = 0;
  for (;;) {
    temporary_ = folder_of(target_) / (temporary_prefix(target_) + std::to_string(getpid()) + "-" +
                                       std::to_string(counter++));
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) fail_with("cannot create");
    struct stat status {};
    // Another process may have taken the file for a leftover before it was locked.
    const bool ours =
        flock(descriptor_, LOCK_EX) == 0 && fstat(descriptor_, &status) == 0 && status.st_nlink > 0;
    if (ours) return;
    close(descriptor_);
    descriptor_ = -1;
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  unlink(temporary_.c_str());
  close(descriptor_);
}

void AtomicFile::fail_with(const char* what) const {
  fail("save: {} {}: {}", what, target_.string(), std::strerror(errno));
}

void AtomicFile::write(const void* data, size_t bytes) {
  const HoldFileSizeSignal hold;
  const char* next = static_cast<const char*>(data);
  constexpr size_t kAtMost = size_t{1} << 30;  // write() takes no more than 2 GiB a call
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, kAtMost));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with("cannot write");
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_with("cannot write");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_with("cannot rename to");
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_with("cannot close");
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail_with("cannot open the folder of");
  const int synced = fsync(folder);
  const int cause = errno;
  close(folder);
  errno = cause;
  // Some file systems (network ones) cannot sync a folder and say so.
  if (synced != 0 && cause != EINVAL && cause != ENOTSUP) fail_with("cannot sync the folder of");
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text);
  file.commit();
}

}  // namespace heddle
