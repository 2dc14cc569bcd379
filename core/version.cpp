#include "heddle/core/version.h"

namespace heddle {

std::string_view version() { return HEDDLE_VERSION; }

}  // namespace heddle
