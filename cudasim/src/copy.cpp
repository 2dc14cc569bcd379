#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "cudasim/traffic.h"
#include "error.h"
#include "happens_before.h"
#include "order_findings.h"
#include "pool.h"
#include "stream.h"

namespace cudasim {
namespace {

/// One side of a copy: where it lies and, of simulated memory, in what.
struct Place {
  int device = kForeignAddress;  ///< of device memory; else kPinnedAddress or kForeignAddress
  const Allocation* allocation = nullptr;

  bool on_device() const { return device >= 0; }
  bool pageable() const { return device == kForeignAddress; }
};

/// Rows of a copy; one for a plain one.
struct Shape {
  size_t width = 0;
  size_t height = 1;
  size_t destination_pitch = 0;
  size_t source_pitch = 0;

  size_t bytes() const { return width * height; }
  size_t extent(size_t pitch) const { return pitch * (height - 1) + width; }
};

struct Copy {
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;
  Shape shape;
  std::shared_ptr<const std::byte[]> staged;  ///< pageable source, as it was at the call
};

void report_dead(const Allocation& allocation, size_t bytes, const char* what) {
  add_order_finding({.fault = OrderFault::kUseAfterFree,
                     .first = "the free",
                     .second = std::string(what) + " of " + std::to_string(bytes) + " bytes",
                     .buffer = describe(allocation)});
}

/// Finds the place; false where device or pinned memory does not hold all of the bytes.
bool find_place(const void* pointer, size_t bytes, const char* what, Place& place) {
  place.device = device_of_address(pointer);
  if (place.pageable()) return pointer != nullptr;
  place.allocation = find_allocation(pointer);
  if (place.allocation == nullptr || !place.allocation->contains(pointer, bytes)) return false;
  if (place.allocation->freed || place.allocation->free_queued) {
    report_dead(*place.allocation, bytes, what);
    return false;
  }
  return true;
}

bool fits(cudaMemcpyKind kind, const Place& destination, const Place& source) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !destination.on_device() && !source.on_device();
    case cudaMemcpyHostToDevice:
      return destination.on_device() && !source.on_device();
    case cudaMemcpyDeviceToHost:
      return !destination.on_device() && source.on_device();
    case cudaMemcpyDeviceToDevice:
      return destination.on_device() && source.on_device();
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

/// A plain copy between devices is staged by the driver where there is no peer access, but memory
/// of a pool must have been opened to the other device.
bool may_copy(const Place& destination, const Place& source) {
  if (!destination.on_device() || !source.on_device() || destination.device == source.device) {
    return true;
  }
  const auto closed = [](const Place& place, int other) {
    return place.allocation->kind == MemoryKind::kPool && !may_access(other, *place.allocation);
  };
  return !closed(source, destination.device) && !closed(destination, source.device);
}

void tell_observer(const Copy& copy, const std::byte* from, const std::byte* to, size_t bytes) {
  MemoryObserver* observer = memory_observer();
  if (observer == nullptr) return;
  const bool source_known = copy.staged == nullptr && find_allocation(from) != nullptr;
  const bool destination_known = find_allocation(to) != nullptr;
  if (source_known && destination_known) {
    observer->on_copy(to, from, bytes);
  } else if (source_known) {
    observer->on_host_read(from, bytes);
  } else if (destination_known) {
    observer->on_host_write(to, bytes);
  }
}

/// By source and target, the host being the first.
std::array<std::array<std::atomic<int64_t>, kMaxDevices + 1>, kMaxDevices + 1> copied;

std::atomic<int64_t>& copied_between(int from, int to) {
  return copied[static_cast<size_t>(from < 0 ? 0 : from + 1)]
               [static_cast<size_t>(to < 0 ? 0 : to + 1)];
}

void run_copy(const Copy& copy) {
  const Shape& shape = copy.shape;
  copied_between(device_of_address(copy.source), device_of_address(copy.destination)) +=
      static_cast<int64_t>(shape.bytes());
  const std::byte* from = copy.source;
  const size_t source_pitch = copy.staged ? shape.width : shape.source_pitch;
  if (copy.staged) {
    from = copy.staged.get();
  } else {
    note_range(from, shape.extent(source_pitch), Use::kRead);
  }
  note_range(copy.destination, shape.extent(shape.destination_pitch), Use::kWrite);
  for (size_t row = 0; row < shape.height; ++row) {
    std::byte* const to = copy.destination + row * shape.destination_pitch;
    tell_observer(copy, from + row * source_pitch, to, shape.width);
    std::memmove(to, from + row * source_pitch, shape.width);
  }
}

/// Pageable memory is read when the call is made, not when the copy runs.
void stage(Copy& copy) {
  const Shape& shape = copy.shape;
  auto staged = std::make_shared<std::byte[]>(shape.bytes());
  for (size_t row = 0; row < shape.height; ++row) {
    std::memcpy(staged.get() + row * shape.width, copy.source + row * shape.source_pitch,
                shape.width);
  }
  copy.staged = std::move(staged);
}

enum class Waiting { kAsync, kSync };

cudaError_t check(const Copy& copy, cudaMemcpyKind kind, bool peer, Place& to, Place& from) {
  const Shape& shape = copy.shape;
  const bool good =
      find_place(copy.destination, shape.extent(shape.destination_pitch), "copy to", to) &&
      find_place(copy.source, shape.extent(shape.source_pitch), "copy from", from) &&
      fits(kind, to, from) && (peer || may_copy(to, from));
  return good ? cudaSuccess : cudaErrorInvalidValue;
}

/// Queues the copy, and waits where CUDA does: a synchronous one unless both ends are on devices,
/// and any that writes to pageable memory or has no device at all.
cudaError_t submit_copy(Lock& lock, Copy copy, cudaMemcpyKind kind, CUstream_st& stream,
                        Waiting waiting, bool peer = false) {
  if (copy.shape.bytes() == 0) return cudaSuccess;
  Place to;
  Place from;
  if (const cudaError_t error = check(copy, kind, peer, to, from)) return error;
  const bool on_devices = to.on_device() && from.on_device();
  const bool on_host = !to.on_device() && !from.on_device();
  const bool waits = (waiting == Waiting::kSync && !on_devices) || to.pageable() || on_host;
  if (from.pageable() && stream.capture == nullptr) stage(copy);
  const size_t bytes = copy.shape.bytes();
  OperationPtr queued;
  Work work{.kind = "copy of", .bytes = bytes, .run = [copy = std::move(copy)] { run_copy(copy); }};
  const cudaError_t error = submit_work(lock, stream, std::move(work), &queued);
  if (error != cudaSuccess || queued == nullptr || !waits) return error;
  wait_for(lock, {&queued, 1});
  return runtime().devices[static_cast<size_t>(stream.device)].sticky;
}

Copy plain_copy(void* destination, const void* source, size_t bytes) {
  return {.destination = static_cast<std::byte*>(destination),
          .source = static_cast<const std::byte*>(source),
          .shape = {.width = bytes, .destination_pitch = bytes, .source_pitch = bytes},
          .staged = nullptr};
}

template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body&& body) {
  return api([&](Lock& lock) {
    CUstream_st* stream = find_stream(runtime(), handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(lock, *stream);
  });
}

/// Calls that wait use the default stream, and are refused while the thread captures.
template <class Body>
cudaError_t synchronous(Body&& body) {
  return api([&](Lock& lock) {
    if (const cudaError_t error = check_unsafe_call()) return error;
    return body(lock, *runtime().current().legacy_stream);
  });
}

cudaError_t submit_memset(Lock& lock, void* pointer, int value, size_t bytes, CUstream_st& stream,
                          Waiting waiting) {
  if (bytes == 0) return cudaSuccess;
  Place place;
  if (!find_place(pointer, bytes, "memset", place) || place.pageable()) {
    return cudaErrorInvalidValue;
  }
  const auto run = [pointer, value, bytes] {
    note_range(pointer, bytes, Use::kWrite);
    if (MemoryObserver* observer = memory_observer()) observer->on_host_write(pointer, bytes);
    std::memset(pointer, value, bytes);
  };
  OperationPtr queued;
  const cudaError_t error =
      submit_work(lock, stream, {.kind = "memset of", .bytes = bytes, .run = run}, &queued);
  if (error == cudaSuccess && waiting == Waiting::kSync && !place.on_device()) {
    wait_for(lock, {&queued, 1});
  }
  return error;
}

bool devices_match(const void* pointer, int device) {
  const int found = device_of_address(pointer);
  return found < 0 || found == device;
}

}  // namespace

int64_t copied_bytes(int from, int to) { return copied_between(from, to); }

void clear_copied_bytes() {
  for (auto& row : copied)
    for (std::atomic<int64_t>& bytes : row) bytes = 0;
}

}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;
using cudasim::Waiting;

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return cudasim::synchronous([&](Lock& lock, CUstream_st& stream) {
    return cudasim::submit_copy(lock, cudasim::plain_copy(destination, source, bytes), kind, stream,
                                Waiting::kSync);
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t handle) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    return cudasim::submit_copy(lock, cudasim::plain_copy(destination, source, bytes), kind, stream,
                                Waiting::kAsync);
  });
}

cudaError_t cudaMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                              size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t handle) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    if (width > destination_pitch || width > source_pitch) return cudaErrorInvalidValue;
    cudasim::Copy copy = cudasim::plain_copy(destination, source, width);
    copy.shape = {width, height, destination_pitch, source_pitch};
    return cudasim::submit_copy(lock, std::move(copy), kind, stream, Waiting::kAsync);
  });
}

cudaError_t cudaMemcpyPeer(void* destination, int destination_device, const void* source,
                           int source_device, size_t bytes) {
  return cudasim::synchronous([&](Lock& lock, CUstream_st& stream) {
    if (!cudasim::devices_match(destination, destination_device) ||
        !cudasim::devices_match(source, source_device)) {
      return cudaErrorInvalidValue;
    }
    return cudasim::submit_copy(lock, cudasim::plain_copy(destination, source, bytes),
                                cudaMemcpyDefault, stream, Waiting::kSync, true);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                                int source_device, size_t bytes, cudaStream_t handle) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    cudasim::Runtime& state = runtime();
    if (!state.valid_device(destination_device) || !state.valid_device(source_device)) {
      return cudaErrorInvalidDevice;
    }
    if (!cudasim::devices_match(destination, destination_device) ||
        !cudasim::devices_match(source, source_device)) {
      return cudaErrorInvalidValue;
    }
    if (stream.capture != nullptr) {  // by reports from devices; the manual is silent
      cudasim::invalidate(*stream.capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    return cudasim::submit_copy(lock, cudasim::plain_copy(destination, source, bytes),
                                cudaMemcpyDefault, stream, Waiting::kAsync, true);
  });
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return cudasim::synchronous([&](Lock& lock, CUstream_st& stream) {
    return cudasim::submit_memset(lock, pointer, value, bytes, stream, Waiting::kSync);
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t handle) {
  return cudasim::with_stream(handle, [&](Lock& lock, CUstream_st& stream) {
    return cudasim::submit_memset(lock, pointer, value, bytes, stream, Waiting::kAsync);
  });
}
