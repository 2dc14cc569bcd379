#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "heddle/core/cuda_check.h"
#include "heddle/core/device.h"
#include "heddle/core/memory.h"
#include "heddle/core/stream.h"

/// What heddle keeps for each CUDA device it has used. For core's *_cuda.cpp alone.
namespace heddle::cuda {

/// Made at the device's first use and never destroyed, so that tensors which live to the end of the
/// program find it, and nothing is given back to a driver that has gone already.
class Context {
 public:
  explicit Context(Device device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return device_; }
  StreamRef stream() const { return {device_, stream_}; }  ///< Where work goes by default.

  void* allocate(int64_t bytes, StreamRef stream);
  void release(void* data) noexcept;
  MemoryStats stats();
  void reset_peak();
  void release_cached();

 private:
  struct Block {
    int64_t bytes;
    CUstream_st* stream;  // that it was allocated on and is freed on
  };

  Device device_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  MemoryStats stats_;
};

/// Errors: the machine has no such device.
Context& context(Device device);

}  // namespace heddle::cuda
