#pragma once

#include <cstdint>

// What copies have carried. None of it exists in CUDA.
namespace cudasim {

constexpr int kHost = -1;  ///< in place of a device's number: host memory

/// Bytes that copies from one device's memory to the other's (or the host's) have carried since the
/// last clear_copied_bytes().
int64_t copied_bytes(int from, int to);
void clear_copied_bytes();

}  // namespace cudasim
