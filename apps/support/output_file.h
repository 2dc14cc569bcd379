#pragma once

#include <string>
#include <string_view>

namespace heddle::apps {

/// Refuses a place where no file can be written, before the work that is to be kept there. An empty
/// path and "-", standard output, are none. Errors: Error, which names the flag and the path.
void check_output_file(std::string_view flag, const std::string& path);

/// Writes to a file, or to standard output for "-", with a newline behind.
void write_output_file(std::string_view flag, const std::string& path, std::string_view text);

}  // namespace heddle::apps
