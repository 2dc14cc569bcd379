#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "stream.h"

namespace cudasim {

/// One node: the work, the stream it was captured in (a lane of the replay) and what it waits for.
struct GraphNode {
  Work work;
  int device = 0;
  int lane = 0;
  std::vector<int> waits_for;  ///< earlier nodes
};

/// A capture in progress.
struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;  ///< origin first; their places are the lanes
  std::vector<GraphNode> nodes;
  bool invalid = false;
};

/// The capture gives no graph any more; only its end is allowed.
void invalidate(Capture& capture);

/// Adds a node behind the stream's.
cudaError_t capture_work(CUstream_st& stream, Work work);
cudaError_t capture_record(CUstream_st& stream, CUevent_st& event);
/// A wait where the stream is captured or the event was: joins, forks, or is refused.
cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event);

/// Refuses (and spoils the capture) what orders the legacy stream with a captured blocking stream.
cudaError_t check_legacy_use(CUstream_st& stream);

/// Refuses, and spoils the captures, what this thread must not call while it or (global mode) any
/// thread captures: calls that may wait for the device.
cudaError_t check_unsafe_call();

/// Refuses to wait for a device of which a stream is captured.
cudaError_t check_device_wait(int device);

}  // namespace cudasim
