#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace heddle {

/// What to fetch and how to know that it is the right thing. The defaults are CIFAR-10's official
/// archive.
struct DownloadOptions {
  /// Tried in this order until one gives the archive.
  std::vector<std::string> urls = {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"};
  int64_t bytes = 170'052'171;
  std::string sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";
  std::string archive = "cifar-10-binary.tar.gz";  ///< its name in the folder
  std::string unpacked = "cifar-10-batches-bin";   ///< the folder that the archive holds
  int attempts = 3;            ///< for each URL, each going on where the one before broke off
  int64_t stall_seconds = 30;  ///< without a byte, before an attempt is given up
  int64_t connect_seconds = 15;
  std::function<void(int64_t done, int64_t total)> progress;  ///< Units: bytes. May be empty.
};

/// True where this build has libcurl, libarchive and OpenSSL.
bool can_download();

/// Fetches CIFAR-10 into `folder` and returns the folder with the data files, which is returned at
/// once where it is already there. A partial file (`archive` + ".part") is continued, also by a
/// later run. Length and SHA-256 are checked before anything is unpacked; what fails them is
/// removed. The data folder appears under its name only when it is complete.
/// Errors: a build without the libraries; no URL gives the archive (with what happened at each, and
/// what to do by hand); the folder cannot be written; an archive with paths outside of its folder.
std::filesystem::path download_cifar10(const std::filesystem::path& folder,
                                       const DownloadOptions& options = {});

/// SHA-256 of a file in hexadecimal. Errors: it cannot be read; a build without OpenSSL.
std::string sha256_of_file(const std::filesystem::path& path);

/// Unpacks a tar archive (compressed or not) into a temporary folder beside `target`, and renames
/// its top folder `target.filename()` to `target` when all is there and on the disk.
/// Errors: paths that are absolute, have "..", or lie outside of that folder; anything but folders
/// and ordinary files; more than 1 GiB; a broken archive.
void unpack_archive(const std::filesystem::path& archive, const std::filesystem::path& target);

}  // namespace heddle
