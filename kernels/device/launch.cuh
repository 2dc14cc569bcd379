#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "heddle/core/cuda_check.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Grid and block of a launch: `{.grid = {blocks}, .block = {threads}}`.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // dynamic shared memory
};

/// Blocks that cover n elements, `per_block` each. Errors: more than a grid may have.
inline unsigned grid_for(int64_t n, int64_t per_block) {
  const int64_t blocks = n / per_block + (n % per_block != 0 ? 1 : 0);
  HEDDLE_CHECK(blocks <= INT32_MAX, "launch: {} elements are {} blocks, at most {} are possible", n,
               blocks, INT32_MAX);
  return static_cast<unsigned>(blocks);
}

/// Starts `kernel(args...)` on the stream. `name` is the kernel's in errors.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape, StreamRef stream,
            Args&&... args) {
  constexpr size_t kDefaultSharedBytes = 48 << 10;  // more has to be asked for, once a kernel
  if (shape.shared_bytes > kDefaultSharedBytes)
    HEDDLE_CUDA_CHECK_LAUNCH(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(shape.shared_bytes)),
                             name, stream.get());
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.get();
  HEDDLE_CUDA_CHECK_LAUNCH(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), name,
                           stream.get());
}

}  // namespace heddle
