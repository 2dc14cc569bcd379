#include "heddle/core/error.h"

namespace heddle::detail {

std::string_view short_path(std::string_view path) {
  size_t place = std::string_view::npos;
  for (const std::string_view folder :
       {"/core/", "/kernels/", "/nn/", "/data/", "/parallel/", "/apps/"}) {
    const size_t found = path.rfind(folder);
    if (found != std::string_view::npos && (place == std::string_view::npos || found < place))
      place = found;
  }
  return place == std::string_view::npos ? path : path.substr(place + 1);
}

void check_failed(std::string_view condition, const char* file, int line,
                  const std::string& message) {
  throw Error(fmt::format("{} [{}] at {}:{}", message, condition, short_path(file), line));
}

}  // namespace heddle::detail
