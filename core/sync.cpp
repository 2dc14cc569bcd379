#include "heddle/core/sync.h"

#include <cstdlib>
#include <string_view>

namespace heddle {

bool wants_sync() {
  static const bool wanted = [] {
    const char* value = std::getenv("HEDDLE_SYNC");
    return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
  }();
  return wanted;
}

}  // namespace heddle
