#pragma once

#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// The rows of all parts under each other, on `device`, in the storage order of the first one.
/// Parts that are undefined count as empty. Without history.
/// Errors: no part with rows; parts whose shapes differ in more than the number of rows.
Tensor gather(const std::vector<Tensor>& parts, Device device);

}  // namespace heddle
