#pragma once

#include <functional>
#include <string_view>

namespace heddle::apps {

/// What every program's main is: runs `body` and gives the exit code. An exception becomes one line
/// on standard error, "program: message", and 2 (UsageError) or 1; so does output that is lost.
/// Subnormals are flushed in all threads that `body` makes, the vendor library's too.
int run_program(std::string_view program, const std::function<int()>& body) noexcept;

}  // namespace heddle::apps
