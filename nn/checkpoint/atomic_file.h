#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace heddle {

/// A file that appears complete under its name or not at all: it is written beside its target under
/// a temporary name, and commit() forces it to disk and renames it. Without a commit (an exception,
/// a full disk, a kill) the file that was there before stands, and what is left of the temporary
/// one is removed here or by the next write to the same target.
/// Errors: every failing system call, with path and cause.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void open_temporary();
  [[noreturn]] void fail_with(const char* what) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Writes `text` as the whole of `target`, atomically.
void write_file_atomically(const std::filesystem::path& target, std::string_view text);

}  // namespace heddle
