#pragma once

#include <chrono>

#include "heddle/core/cuda_handle.h"
#include "heddle/core/device.h"

struct CUevent_st;  // what cudaEvent_t points at

namespace heddle {

class StreamRef;

/// An event that somebody else owns: a point in the work of a stream.
class EventRef {
 public:
  EventRef(Device device, CUevent_st* handle) : device_(device), handle_(handle) {}

  CUevent_st* get() const { return handle_; }
  Device device() const { return device_; }
  void synchronize() const;  ///< Waits on the host until the work before the point is done.
  bool is_done() const;      ///< Whether it is; true before the first record.

 private:
  Device device_;
  CUevent_st* handle_;
};

namespace detail {
void destroy_event(CUevent_st* event) noexcept;
CUevent_st* make_event(Device device, bool timed);
void record_event(CUevent_st* event, StreamRef stream);
}  // namespace detail

/// Marks a point in a stream for others to wait for. It measures no time, which makes it cheap.
/// In builds with CUDA alone, as all of this header.
class Event {
 public:
  explicit Event(Device device) : device_(device), handle_(detail::make_event(device, false)) {}
  /// Takes over an event that CUDA made.
  static Event from_native_handle(Device device, CUevent_st* handle) { return {device, handle}; }
  [[nodiscard]] CUevent_st* release() noexcept { return handle_.release(); }

  void record(StreamRef stream);
  EventRef ref() const { return {device_, handle_.get()}; }
  operator EventRef() const { return ref(); }
  void synchronize() const { ref().synchronize(); }
  bool is_done() const { return ref().is_done(); }

 private:
  Event(Device device, CUevent_st* handle) : device_(device), handle_(handle) {}
  Device device_;
  CudaHandle<CUevent_st*, detail::destroy_event> handle_;
};

/// A point in a stream with the time at which the device reached it.
class TimedEvent {
 public:
  explicit TimedEvent(Device device) : device_(device), handle_(detail::make_event(device, true)) {}

  void record(StreamRef stream);
  EventRef ref() const { return {device_, handle_.get()}; }
  operator EventRef() const { return ref(); }
  void synchronize() const { ref().synchronize(); }

  /// The time between two points of one device; waits for the later one.
  friend std::chrono::duration<double> operator-(const TimedEvent& end, const TimedEvent& begin) {
    return end.since(begin);
  }

 private:
  std::chrono::duration<double> since(const TimedEvent& begin) const;
  Device device_;
  CudaHandle<CUevent_st*, detail::destroy_event> handle_;
};

}  // namespace heddle
