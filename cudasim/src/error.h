#pragma once

#include <string_view>
#include <utility>

#include "cudasim/runtime_types.h"
#include "runtime.h"

namespace cudasim {

/// What every call checks first: that the driver is not gone, that no host function calls, and the
/// device's sticky error.
cudaError_t begin_call();
/// Remembers an error as the thread's last.
cudaError_t end_call(cudaError_t error);

/// The error of that name; cudaSuccess for another text.
cudaError_t error_named(std::string_view name);

/// The frame of each function of the API: `body(lock)` returns its status.
template <class Body>
cudaError_t api(Body&& body) {
  cudaError_t error = begin_call();
  if (error == cudaSuccess) {
    Lock lock(runtime().mutex);
    error = std::forward<Body>(body)(lock);
  }
  return end_call(error);
}

}  // namespace cudasim
