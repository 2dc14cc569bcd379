#pragma once

// For *_cuda.cpp and .cu sources alone: the one header of core/ that includes CUDA's.
#include <cuda_runtime.h>

#include "heddle/core/cuda_error.h"

namespace heddle::detail {

/// Errors: CudaError where `status` is not success; the runtime's last error is cleared.
void check_cuda(cudaError_t status, const char* call, const char* file, int line);
/// Prints one line on stderr where `status` is not success. Says nothing about a driver that is
/// shutting down: then all it owned is gone anyway.
void warn_cuda(cudaError_t status, const char* call, const char* file, int line) noexcept;
/// Errors: the launch of `kernel` failed; with HEDDLE_SYNC=1, its run did too.
void check_launch(const char* kernel, const char* file, int line);

}  // namespace heddle::detail

/// Wraps every call that returns a status.
#define HEDDLE_CUDA_CHECK(call) ::heddle::detail::check_cuda((call), #call, __FILE__, __LINE__)
/// The form for destructors: never throws.
#define HEDDLE_CUDA_WARN(call) ::heddle::detail::warn_cuda((call), #call, __FILE__, __LINE__)
/// Follows every launch.
#define HEDDLE_CUDA_CHECK_LAUNCH(kernel) ::heddle::detail::check_launch(kernel, __FILE__, __LINE__)
