#include "stream.h"

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "happens_before.h"
#include "pool.h"

namespace cudasim {
namespace {

/// This host thread's default stream on the device.
CUstream_st* thread_stream(int device) {
  thread_local std::array<CUstream_st*, kMaxDevices> streams{};
  CUstream_st*& stream = streams[static_cast<size_t>(device)];
  Runtime& state = runtime();
  if (stream == nullptr || !state.handles.contains(stream)) {
    stream = make_stream(device, cudaStreamDefault, ++state.n_streams_made);
    state.handles.insert(stream);
    state.devices[static_cast<size_t>(device)].streams.push_back(stream);
  }
  return stream;
}

}  // namespace

CUstream_st* make_stream(int device, unsigned int flags, int number) {
  auto* stream = new CUstream_st;  // kept when destroyed, so that no handle means two streams
  keep_alive(stream);
  stream->device = device;
  stream->flags = flags;
  stream->number = number;
  stream->timeline = new_timeline(stream->ticks);
  return stream;
}

CUstream_st* find_stream(Runtime& state, cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return state.current().legacy_stream;
  if (handle == cudaStreamPerThread) return thread_stream(current_device);
  return state.handles.contains(handle) ? handle : nullptr;
}

OperationPtr enqueue(Lock& lock, CUstream_st& stream, Work work,
                     std::span<const OperationPtr> extra) {
  std::vector<OperationPtr> before(extra.begin(), extra.end());
  before.push_back(stream.last);
  const Device& device = runtime().devices[static_cast<size_t>(stream.device)];
  if (stream.legacy) {
    for (const CUstream_st* other : device.streams) {
      if (other->blocking()) before.push_back(other->last);
    }
  } else if (stream.blocking()) {
    before.push_back(device.legacy_stream->last);
  }
  auto operation = std::make_shared<Operation>();
  operation->device = stream.device;
  operation->stream = stream.number;
  operation->work = std::move(work);
  operation->clock = host_clock();
  for (const OperationPtr& earlier : before) {
    if (earlier != nullptr) operation->clock.join(earlier->clock);
  }
  operation->timeline = stream.timeline;
  operation->tick = ++stream.ticks;
  operation->clock.set(stream.timeline, operation->tick);
  stream.last = operation;
  runtime().scheduler.submit(lock, operation, before);
  return operation;
}

cudaError_t submit_work(Lock& lock, CUstream_st& stream, Work work, OperationPtr* queued) {
  if (stream.capture != nullptr) return capture_work(stream, std::move(work));
  if (const cudaError_t error = check_legacy_use(stream); error != cudaSuccess) return error;
  OperationPtr operation = enqueue(lock, stream, std::move(work));
  if (queued != nullptr) *queued = std::move(operation);
  return cudaSuccess;
}

void wait_for(Lock& lock, std::span<const OperationPtr> operations) {
  runtime().scheduler.finish(lock, operations);
  for (const OperationPtr& operation : operations) {
    if (operation != nullptr) host_waited_for(operation->clock);
  }
  trim_pools();
}

void wait_for_device(Lock& lock, int device) {
  Device& state = runtime().devices[static_cast<size_t>(device)];
  std::vector<OperationPtr> last = std::move(state.orphans);
  state.orphans.clear();
  last.push_back(state.legacy_stream->last);
  for (const CUstream_st* stream : state.streams) last.push_back(stream->last);
  wait_for(lock, last);
}

namespace {

cudaError_t create_stream(cudaStream_t* stream, unsigned int flags) {
  return api([&](Lock&) {
    if (stream == nullptr || (flags & ~cudaStreamNonBlocking) != 0) return cudaErrorInvalidValue;
    Runtime& state = runtime();
    *stream = make_stream(current_device, flags, ++state.n_streams_made);
    state.handles.insert(*stream);
    state.current().streams.push_back(*stream);
    return cudaSuccess;
  });
}

/// The frame of calls that take a stream.
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body&& body) {
  return api([&](Lock& lock) {
    CUstream_st* stream = find_stream(runtime(), handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(lock, *stream);
  });
}

/// What a wait or a query of the stream must not meet.
cudaError_t check_not_captured(CUstream_st& stream) {
  if (stream.capture == nullptr) return check_legacy_use(stream);
  invalidate(*stream.capture);
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace
}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudasim::create_stream(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudasim::create_stream(stream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudasim::create_stream(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cudasim::api([&](Lock&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return cudasim::api([&](Lock&) {
    cudasim::Runtime& state = runtime();
    if (!state.handles.contains(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) cudasim::invalidate(*stream->capture);
    state.handles.erase(stream);  // what is queued still runs
    cudasim::Device& device = state.devices[static_cast<size_t>(stream->device)];
    std::erase(device.streams, stream);
    device.orphans.push_back(stream->last);
    stream->last = nullptr;
    cudasim::retire_timeline(stream->timeline, stream->ticks);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return cudasim::with_stream(handle, [](Lock& lock, CUstream_st& stream) {
    if (const cudaError_t error = cudasim::check_not_captured(stream)) return error;
    const cudasim::OperationPtr last = stream.last;
    cudasim::wait_for(lock, {&last, 1});
    return runtime().devices[static_cast<size_t>(stream.device)].sticky.load();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return cudasim::with_stream(handle, [](Lock& lock, CUstream_st& stream) {
    if (const cudaError_t error = cudasim::check_not_captured(stream)) return error;
    const cudasim::OperationPtr last = stream.last;
    if (!runtime().scheduler.query(lock, last)) return cudaErrorNotReady;
    if (last != nullptr) cudasim::host_waited_for(last->clock);
    return runtime().devices[static_cast<size_t>(stream.device)].sticky.load();
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  return cudasim::with_stream(handle, [&](Lock&, CUstream_st& stream) {
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return cudasim::with_stream(handle, [&](Lock&, CUstream_st& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return cudasim::submit_work(lock, stream,
                                {.kind = "host function",
                                 .run = [function, user_data] { function(user_data); },
                                 .on_host = true});
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    if (!runtime().handles.contains(event)) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (stream.capture != nullptr || event->capture_id != 0) {
      return cudasim::capture_wait(stream, *event);
    }
    if (event->recorded == nullptr) return cudaSuccess;
    if (const cudaError_t error = cudasim::check_legacy_use(stream)) return error;
    const cudasim::OperationPtr recorded = event->recorded;
    cudasim::enqueue(lock, stream, {.kind = "wait"}, {&recorded, 1});
    return cudaSuccess;
  });
}
