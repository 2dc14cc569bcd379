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

  /// Errors: the file has been cut, extended or written since it was opened, or a page of it could
  /// not be read. Touching such a page is SIGBUS, which ends the process unless explain_bus_errors
  /// was called; then it reads as zeros, and this tells of it: call it after reading, too.
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  const uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  timespec modified_{};

  void close() noexcept;
};

/// For programs: from now on, a page of a mapped file that cannot be read (the file was cut short,
/// or its disk fails) is not a crash but an error of the next check_unchanged, so that the program
/// ends as after any other. Other causes of SIGBUS keep what they do. A library must not call it.
void explain_bus_errors();

}  // namespace heddle
