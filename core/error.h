#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace heddle {

/// What every failure that a user can cause is thrown as. The text names the operation first, then
/// what was found and what was expected. Programs turn it into exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Wrong flags or impossible values on a command line. Programs turn it into exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A device has no memory left. Nothing is lost: with smaller batches, or what is not needed freed,
/// work may go on.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a formatted message and no source place: for files, flags and other input
/// where the place in our source helps nobody.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {

/// The path from the last folder of the tree that holds sources, so that messages do not depend on
/// where the project was built.
std::string_view short_path(std::string_view path);

[[noreturn]] void check_failed(std::string_view condition, const char* file, int line,
                               const std::string& message);

}  // namespace detail
}  // namespace heddle

/// Guards against wrong input in the library; always on. Usage:
/// `HEDDLE_CHECK(a.cols > 0, "softmax: x is {}, cols must be > 0", shape)`.
#define HEDDLE_CHECK(condition, ...)                                                            \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::heddle::detail::check_failed(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)

/// Guards against our own bugs, in debug builds; never against user input.
#ifdef NDEBUG
#define HEDDLE_ASSERT(condition) ((void)0)
#else
#define HEDDLE_ASSERT(condition) HEDDLE_CHECK(condition, "internal error: a bug in heddle")
#endif
