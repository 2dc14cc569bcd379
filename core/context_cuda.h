#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

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
  void record_use(void* data, StreamRef stream);
  void leave_stream(cudaStream_t stream) noexcept;
  MemoryStats stats();
  void reset_peak();
  void release_cached();

 private:
  struct Block {
    int64_t bytes;
    cudaStream_t stream;           // that it was allocated on and is freed on
    std::vector<StreamRef> users;  // others, which freeing waits for
    std::string label;             // of the layer that it was taken for
  };

  std::string largest_blocks();
  void* from_pool(int64_t bytes, StreamRef stream);
  [[noreturn]] void out_of_memory(int64_t asked);

  Device device_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  MemoryStats stats_;
};

/// Errors: the machine has no such device.
Context& context(Device device);

/// Before a stream ends: what lives on it goes on living on its device's own stream.
void leave_stream(cudaStream_t stream) noexcept;
/// `stream` waits for what `other` has queued by now. Never throws: for freeing and destructors.
void wait_quietly(cudaStream_t stream, StreamRef other) noexcept;

}  // namespace heddle::cuda
