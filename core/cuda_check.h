#pragma once

// For *_cuda.cpp and .cu sources alone: the one header of core/ that includes CUDA's.
#include <cuda_runtime.h>

#include "heddle/core/cuda_error.h"

namespace heddle::detail {

/// Errors: CudaError where `status` is not success; the runtime's last error is cleared.
void check_cuda(cudaError_t status, const char* call, const char* file, int line);
/// Prints one line on stderr where `status` is not success. Says nothing about a driver that is
/// shutting down, where all it owned is gone anyway, nor about the error that was thrown last.
void warn_cuda(cudaError_t status, const char* call, const char* file, int line) noexcept;
/// `status` is that of the launch of `kernel` on `stream`. Errors: CudaError naming the kernel
/// where the launch failed, or an earlier one did, and with HEDDLE_SYNC=1 where its run did; where
/// it was built for other devices, with this one's capability and those of the build.
void check_launch(cudaError_t status, const char* kernel, cudaStream_t stream, const char* file,
                  int line);

}  // namespace heddle::detail

/// Wraps every call that returns a status.
#define HEDDLE_CUDA_CHECK(call) ::heddle::detail::check_cuda((call), #call, __FILE__, __LINE__)
/// The form for destructors: never throws.
#define HEDDLE_CUDA_WARN(call) ::heddle::detail::warn_cuda((call), #call, __FILE__, __LINE__)
/// Wraps what starts the kernel of that name.
#define HEDDLE_CUDA_CHECK_LAUNCH(call, kernel, stream) \
  ::heddle::detail::check_launch((call), kernel, stream, __FILE__, __LINE__)
