#pragma once

#include "heddle/core/cuda_handle.h"
#include "heddle/core/device.h"

struct CUstream_st;  // what cudaStream_t points at

namespace heddle {

class EventRef;

/// A stream that somebody else owns: where kernels and copies queue, in order. Default: no stream,
/// as on the CPU, where work is done when its call returns.
class StreamRef {
 public:
  StreamRef() = default;
  StreamRef(Device device, CUstream_st* handle) : device_(device), handle_(handle) {}

  CUstream_st* get() const { return handle_; }
  Device device() const { return device_; }
  /// Work that is queued from now on starts after the point that `event` marks.
  void wait(EventRef event) const;
  /// The same for all that is queued in `other` by now.
  void wait(StreamRef other) const;
  void synchronize() const;  ///< Waits on the host until all queued work is done.
  bool is_idle() const;      ///< Whether it is.
  bool operator==(const StreamRef&) const = default;

 private:
  Device device_;
  CUstream_st* handle_ = nullptr;
};

/// The stream that this thread's work on `device` goes to: the device's own, one for all threads,
/// unless a StreamGuard says otherwise. Errors: a device that this build or machine lacks.
StreamRef current_stream(Device device);

/// Waits until all work of this process on `device` is done. Nothing for the CPU.
/// Errors: CudaError, of work that failed since the last call too.
void synchronize(Device device);

namespace detail {
void destroy_stream(CUstream_st* stream) noexcept;
}  // namespace detail

/// A stream of one's own; it waits for no other (CUDA's non-blocking kind). Tensors and buffers
/// that were allocated on it may live longer. In builds with CUDA alone.
class Stream {
 public:
  explicit Stream(Device device);
  /// Takes over a stream that CUDA made.
  static Stream from_native_handle(Device device, CUstream_st* handle) { return {device, handle}; }
  [[nodiscard]] CUstream_st* release() noexcept { return handle_.release(); }

  StreamRef ref() const { return {device_, handle_.get()}; }
  operator StreamRef() const { return ref(); }
  Device device() const { return device_; }
  void wait(EventRef event) const;
  void wait(StreamRef other) const { ref().wait(other); }
  void synchronize() const { ref().synchronize(); }

 private:
  Stream(Device device, CUstream_st* handle) : device_(device), handle_(handle) {}
  Device device_;
  CudaHandle<CUstream_st*, detail::destroy_stream> handle_;
};

/// While it lives, this thread's work on the stream's device goes to it.
class [[nodiscard]] StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Device device_;
  StreamRef previous_;
};

}  // namespace heddle
