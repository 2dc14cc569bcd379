#pragma once

#include <string_view>

namespace heddle {

/// "0.1.0": what `--version` of every program prints and checkpoints record.
std::string_view version();

}  // namespace heddle
