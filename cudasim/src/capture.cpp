#include "capture.h"

#include <algorithm>

#include "cudasim/runtime_api.h"
#include "error.h"
#include "graph.h"

namespace cudasim {
namespace {

constinit thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
uint64_t n_captures = 0;

void add_missing(std::vector<int>& tail, const std::vector<int>& more) {
  for (const int node : more) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

cudaError_t refuse(Capture& capture, cudaError_t error) {
  invalidate(capture);
  return error;
}

Capture* find_capture(uint64_t id) {
  for (Capture* capture : runtime().captures) {
    if (capture->id == id) return capture;
  }
  return nullptr;
}

/// Whether all nodes come before the end of the origin's stream.
bool all_joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<int> open = capture.origin->capture_tail;
  while (!open.empty()) {
    const auto node = static_cast<size_t>(open.back());
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    const std::vector<int>& earlier = capture.nodes[node].waits_for;
    open.insert(open.end(), earlier.begin(), earlier.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

void leave(Capture& capture) {
  for (CUstream_st* stream : capture.streams) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  runtime().captures.erase(&capture);
}

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  if (stream.legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return refuse(*stream.capture, cudaErrorIllegalState);
  auto* capture = new Capture;
  capture->id = ++n_captures;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->streams.push_back(&stream);
  stream.capture = capture;
  stream.capture_tail.clear();
  runtime().captures.insert(capture);
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream.capture == nullptr) return cudaErrorIllegalState;
  Capture& capture = *stream.capture;
  if (capture.mode != cudaStreamCaptureModeRelaxed &&
      capture.thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (&stream != capture.origin) return refuse(capture, cudaErrorStreamCaptureUnmatched);
  cudaError_t error = cudaSuccess;
  if (capture.invalid) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (!all_joined(capture)) {
    error = cudaErrorStreamCaptureUnjoined;
  } else {
    *graph = make_graph(std::move(capture.nodes), static_cast<int>(capture.streams.size()));
  }
  leave(capture);
  delete &capture;
  return error;
}

}  // namespace

void invalidate(Capture& capture) { capture.invalid = true; }

cudaError_t capture_work(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  const auto lane = std::find(capture.streams.begin(), capture.streams.end(), &stream);
  capture.nodes.push_back({.work = std::move(work),
                           .device = stream.device,
                           .lane = static_cast<int>(lane - capture.streams.begin()),
                           .waits_for = stream.capture_tail});
  stream.capture_tail = {static_cast<int>(capture.nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t capture_record(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture_id = stream.capture->id;
  event.captured_tail = stream.capture_tail;
  event.recorded = nullptr;
  return cudaSuccess;
}

cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture != nullptr && stream.capture->invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (event.capture_id == 0) {  // the stream is captured, the event was not
    if (event.recorded == nullptr) return cudaSuccess;
    return refuse(*stream.capture, cudaErrorStreamCaptureIsolation);
  }
  Capture* capture = find_capture(event.capture_id);
  if (capture == nullptr) {
    if (stream.capture != nullptr) invalidate(*stream.capture);
    return cudaErrorCapturedEvent;
  }
  if (stream.legacy) return refuse(*capture, cudaErrorStreamCaptureImplicit);
  if (stream.capture == nullptr) {
    stream.capture = capture;
    stream.capture_tail.clear();
    capture->streams.push_back(&stream);
  } else if (stream.capture != capture) {
    invalidate(*stream.capture);
    return refuse(*capture, cudaErrorStreamCaptureMerge);
  }
  add_missing(stream.capture_tail, event.captured_tail);
  return cudaSuccess;
}

cudaError_t check_legacy_use(CUstream_st& stream) {
  if (!stream.legacy) return cudaSuccess;
  for (Capture* capture : runtime().captures) {
    for (const CUstream_st* captured : capture->streams) {
      if (captured->blocking() && captured->device == stream.device) {
        return refuse(*capture, cudaErrorStreamCaptureImplicit);
      }
    }
  }
  return cudaSuccess;
}

cudaError_t check_unsafe_call() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (Capture* capture : runtime().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = capture->mode == cudaStreamCaptureModeThreadLocal
                             ? own
                             : capture->mode == cudaStreamCaptureModeGlobal &&
                                   (own || thread_mode == cudaStreamCaptureModeGlobal);
    if (forbids) error = refuse(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t check_device_wait(int device) {
  cudaError_t error = cudaSuccess;
  for (Capture* capture : runtime().captures) {
    for (const CUstream_st* stream : capture->streams) {
      if (stream->device == device) error = refuse(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return error;
}

}  // namespace cudasim

using cudasim::Lock;

namespace {

template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body&& body) {
  return cudasim::api([&](Lock&) {
    CUstream_st* stream = cudasim::find_stream(cudasim::runtime(), handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(*stream);
  });
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return with_stream(handle,
                     [&](CUstream_st& stream) { return cudasim::begin_capture(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return with_stream(handle, [&](CUstream_st& stream) {
    return graph == nullptr ? cudaErrorInvalidValue : cudasim::end_capture(stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream(handle, [&](CUstream_st& stream) {
    if (status == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = cudasim::check_legacy_use(stream)) return error;
    *status = cudaStreamCaptureStatusNone;
    if (stream.capture != nullptr) {
      *status = stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return cudasim::api([&](Lock&) {
    if (mode == nullptr) return cudaErrorInvalidValue;
    std::swap(*mode, cudasim::thread_mode);
    return cudaSuccess;
  });
}
