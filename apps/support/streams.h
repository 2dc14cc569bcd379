#pragma once

#include <string>
#include <string_view>

namespace heddle::apps {

/// Opens /dev/null in place of each standard stream that the caller has closed. Otherwise the next
/// file that the program opens takes its number, and what is printed goes into that file.
void open_standard_streams();

/// Prints "program: message" on standard error as one line, with control characters written out.
/// Never throws: an error that cannot be shown is still told by the exit code.
void print_error(std::string_view program, std::string_view message) noexcept;

/// Writes out what is left of standard output. The exit code: `code`, or 1 where it is 0 and
/// something that was printed is lost (a full disk).
int finish_output(std::string_view program, int code) noexcept;

/// `text` with each control character as \xNN.
std::string escape_controls(std::string_view text);

}  // namespace heddle::apps
