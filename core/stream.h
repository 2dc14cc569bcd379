#pragma once

#include "heddle/core/device.h"

struct CUstream_st;  // what cudaStream_t points at

namespace heddle {

/// A stream that somebody else owns: where kernels and copies queue, in order. Default: no stream,
/// as on the CPU, where work is done when its call returns.
class StreamRef {
 public:
  StreamRef() = default;
  StreamRef(Device device, CUstream_st* handle) : device_(device), handle_(handle) {}

  CUstream_st* get() const { return handle_; }
  Device device() const { return device_; }
  bool operator==(const StreamRef&) const = default;

 private:
  Device device_;
  CUstream_st* handle_ = nullptr;
};

/// The stream that this thread's work on `device` goes to: the device's own, one for all threads,
/// unless a StreamGuard says otherwise. Errors: a device that this build or machine lacks.
StreamRef current_stream(Device device);

}  // namespace heddle
