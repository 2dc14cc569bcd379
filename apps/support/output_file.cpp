#include "heddle/apps/support/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "heddle/core/error.h"

namespace heddle::apps {
namespace fs = std::filesystem;

void check_output_file(std::string_view flag, const std::string& path) {
  if (path.empty() || path == "-") return;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail("{} {}: is a folder, expected a file", flag, path);
  const fs::path parent = fs::path(path).parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
  const bool there = fs::exists(path, ignored);
  if (access(there ? path.c_str() : folder.c_str(), there ? W_OK : W_OK | X_OK) != 0)
    fail("{} {}: cannot be written: {}", flag, path, std::strerror(errno));
}

void write_output_file(std::string_view flag, const std::string& path, std::string_view text) {
  if (path == "-") {
    fmt::print("{}\n", text);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (file.fail()) fail("{} {}: cannot be written", flag, path);
}

}  // namespace heddle::apps
