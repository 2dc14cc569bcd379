#pragma once

#include <cstdint>

#include "heddle/core/tensor.h"

namespace heddle {

/// A hash of the values as they lie in memory (FNV-1a over words of eight bytes), by which replicas
/// are compared. Waits for the device. 0 for an undefined tensor.
uint64_t fingerprint(const Tensor& tensor);

}  // namespace heddle
