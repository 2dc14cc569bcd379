#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::bench {

int64_t minor_page_faults();    ///< Of this process so far.
int64_t peak_resident_bytes();  ///< Of this process so far.

/// Runs this program once more with other arguments; gives what it wrote to standard output.
/// Errors: Error where it does not exit with 0.
std::string run_self(const std::vector<std::string>& arguments);

}  // namespace heddle::bench
