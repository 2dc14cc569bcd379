#pragma once

#include <string>
#include <string_view>

#include "heddle/core/stream.h"
#include "heddle/core/trace.h"

namespace heddle {

namespace detail {
struct DeviceSpanMarks;
/// Whether work that is queued in `stream` is being captured into a graph. False without CUDA.
bool is_capturing(StreamRef stream);
}  // namespace detail

/// What this thread queues in `stream` while the object lives, as a span of the stream's row in the
/// trace: from when the device begins with it to when it has ended. Measured by events in the
/// stream; nothing waits for them until the trace is written. Does nothing without a trace, on the
/// CPU, and while the stream is captured into a graph. `category` must be a literal.
class [[nodiscard]] DeviceSpan {
 public:
  DeviceSpan(std::string_view name, const char* category, StreamRef stream,
             int64_t number = TraceSpan::kNoNumber) noexcept {
    if (tracing() && stream.get() != nullptr) [[unlikely]]
      begin(name, category, stream, number);
  }
  ~DeviceSpan() {
    if (marks_ != nullptr) [[unlikely]]
      end();
  }
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;

 private:
  void begin(std::string_view name, const char* category, StreamRef stream,
             int64_t number) noexcept;
  void end() noexcept;

  detail::DeviceSpanMarks* marks_ = nullptr;
};

/// The name of a stream's row in traces ("copy"); otherwise a device's own stream is "compute" and
/// others are numbered. Does nothing on the CPU.
void set_stream_name(StreamRef stream, const std::string& name);

}  // namespace heddle
