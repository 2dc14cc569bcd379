#include "heddle/apps/support/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace heddle::apps {

void open_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    if (open("/dev/null", O_RDWR) != descriptor) _exit(1);  // nobody is left to be told
  }
}

std::string escape_controls(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result;
}

void print_error(std::string_view program, std::string_view message) noexcept {
  try {
    const std::string line = fmt::format("{}: {}\n", program, escape_controls(message));
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::exception&) {  // no memory for it
    std::fputs("error\n", stderr);
  }
}

int finish_output(std::string_view program, int code) noexcept {
  const bool flushed = std::fflush(stdout) == 0;
  if (code != 0 || (flushed && std::ferror(stdout) == 0)) return code;
  print_error(program, "standard output could not be written; what was printed is incomplete");
  return 1;
}

}  // namespace heddle::apps
