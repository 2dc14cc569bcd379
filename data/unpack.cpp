// unpack_archive of data/download.h, with libarchive.
#ifdef HEDDLE_WITH_DOWNLOAD

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "heddle/core/error.h"
#include "heddle/data/download.h"

namespace heddle {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxUnpackedBytes = int64_t{1} << 30;

/// A folder beside the target, on the same disk so that a rename is enough; gone with the object.
class TempFolder {
 public:
  explicit TempFolder(const fs::path& target) {
    std::string name = target.string() + ".unpack-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      fail("unpack: a folder beside {} cannot be made: {}", target.string(), std::strerror(errno));
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Writes a new file, to the disk.
class NewFile {
 public:
  explicit NewFile(const fs::path& path)
      : path_(path),
        descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH)) {
    if (descriptor_ < 0) failed();
  }
  ~NewFile() { ::close(descriptor_); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const char* data, size_t n) {
    while (n > 0) {
      const ssize_t done = ::write(descriptor_, data, n);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) failed();
      data += done;
      n -= static_cast<size_t>(done);
    }
  }
  void sync() {
    if (::fsync(descriptor_) != 0) failed();
  }

 private:
  [[noreturn]] void failed() const {
    fail("unpack: {} cannot be written: {}", path_.string(), std::strerror(errno));
  }
  fs::path path_;
  int descriptor_;
};

using Archive = std::unique_ptr<archive, decltype(&archive_read_free)>;

Archive open(const fs::path& path) {
  Archive reader(archive_read_new(), archive_read_free);
  HEDDLE_CHECK(reader != nullptr, "unpack: libarchive could not be started");
  archive_read_support_format_tar(reader.get());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_none(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), size_t{1} << 16) != ARCHIVE_OK)
    fail("unpack: {}: {}", path.string(), archive_error_string(reader.get()));
  return reader;
}

/// The entry's path, if it stays inside of the folder `top`.
fs::path checked_path(archive_entry* entry, const fs::path& archive, const fs::path& top) {
  const char* text = archive_entry_pathname(entry);
  if (text == nullptr) fail("unpack: {} has an entry without a name", archive.string());
  const fs::path path = fs::path(text).lexically_normal();
  bool inside = !path.is_absolute() && !path.empty() && *path.begin() == top;
  for (const fs::path& part : fs::path(text)) inside = inside && part != "..";
  if (!inside)
    fail("unpack: {} has {:?}, expected paths in {} only", archive.string(), std::string_view(text),
         top.string());
  return path;
}

void copy_data(archive* reader, const fs::path& source, const fs::path& to, int64_t& total) {
  NewFile file(to);
  std::array<char, 1 << 16> buffer;
  while (true) {
    const la_ssize_t n = archive_read_data(reader, buffer.data(), buffer.size());
    if (n < 0) fail("unpack: {}: {}", source.string(), archive_error_string(reader));
    if (n == 0) break;
    total += n;
    if (total > kMaxUnpackedBytes)
      fail("unpack: {} unpacks to more than {} bytes", source.string(), kMaxUnpackedBytes);
    file.write(buffer.data(), static_cast<size_t>(n));
  }
  file.sync();
}

void unpack_entry(archive* reader, archive_entry* entry, const fs::path& source,
                  const fs::path& folder, const fs::path& top, int64_t& total) {
  const fs::path path = checked_path(entry, source, top);
  const auto type = archive_entry_filetype(entry);
  const bool is_link = archive_entry_hardlink(entry) != nullptr;
  if (is_link || (type != AE_IFDIR && type != AE_IFREG))
    fail("unpack: {} has {}, which is neither a folder nor an ordinary file", source.string(),
         path.string());
  if (type == AE_IFDIR) {
    fs::create_directories(folder / path);
    return;
  }
  fs::create_directories((folder / path).parent_path());
  copy_data(reader, source, folder / path, total);
}

}  // namespace

void unpack_archive(const fs::path& source, const fs::path& target) {
  const fs::path top = target.filename();
  const TempFolder folder(target);
  const Archive reader = open(source);
  int64_t total = 0;
  while (true) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
      fail("unpack: {}: {}", source.string(), archive_error_string(reader.get()));
    unpack_entry(reader.get(), entry, source, folder.path(), top, total);
  }
  if (!fs::is_directory(folder.path() / top))
    fail("unpack: {} does not hold {}", source.string(), top.string());
  std::error_code error;
  fs::rename(folder.path() / top, target, error);
  if (error) fail("unpack: {} cannot be made: {}", target.string(), error.message());
}

}  // namespace heddle

#endif
