#pragma once

#include "heddle/core/dtype.h"

namespace heddle {

/// As dispatch_float, for the floating dtypes that CUDA kernels compute in float32. float64 is for
/// checking gradients, and its arithmetic is slow on most cards. Errors: float64, naming `op`.
template <class Body>
void dispatch_device_float(const char* op, DType dtype, const Body& body) {
  dispatch_float(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      fail("{}: float64 is computed on the CPU, found it on a CUDA device", op);
    } else {
      body.template operator()<T>();
    }
  });
}

}  // namespace heddle
