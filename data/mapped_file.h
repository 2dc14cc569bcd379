#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <span>

namespace heddle {

/// A file mapped into memory for reading. Move-only; unmapped when it goes.
class MappedFile {
 public:
  /// Errors: the file cannot be opened, is no ordinary file, or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, static_cast<size_t>(size_)}; }

  /// Errors: the file has been cut, extended or written since it was opened. Touching a page that a
  /// shortened file no longer has would end the process with SIGBUS.
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  const uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  timespec modified_{};

  void close() noexcept;
};

/// For programs: from now on, a mapped file that goes away between check_unchanged and the read
/// (or a disk that fails) ends the process with one line naming the file and exit code 1, where it
/// would be a crash. Other causes of SIGBUS keep what they do. A library must not call it.
void explain_bus_errors();

}  // namespace heddle
