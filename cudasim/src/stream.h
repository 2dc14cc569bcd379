#pragma once

#include <span>
#include <vector>

#include "operation.h"
#include "runtime.h"

namespace cudasim {
struct Capture;
}

struct CUstream_st {
  int device = 0;
  int number = 0;  ///< 0: a default stream
  unsigned int flags = cudaStreamDefault;
  bool legacy = false;
  int timeline = 0;
  uint64_t ticks = 0;
  cudasim::OperationPtr last;
  cudasim::Capture* capture = nullptr;
  std::vector<int> capture_tail;  ///< nodes that the next one waits for

  /// Whether it and the legacy stream wait for each other.
  bool blocking() const { return !legacy && (flags & cudaStreamNonBlocking) == 0; }
};

struct CUevent_st {
  int device = 0;
  unsigned int flags = cudaEventDefault;
  cudasim::OperationPtr recorded;
  // Last recorded in a stream that was captured: the capture's number and the nodes to wait for.
  uint64_t capture_id = 0;
  std::vector<int> captured_tail;
};

namespace cudasim {

/// A new stream with a timeline of its own, not yet listed with its device.
CUstream_st* make_stream(int device, unsigned int flags, int number);

/// The stream of a handle (null and the special ones included); null for a dead one.
CUstream_st* find_stream(Runtime& state, cudaStream_t handle);

/// Queues an operation behind the stream's last, after `extra`.
OperationPtr enqueue(Lock& lock, CUstream_st& stream, Work work,
                     std::span<const OperationPtr> extra = {});

/// Queues it, or adds it to the graph where the stream is captured. The operation (null when
/// captured) is put in `queued`.
cudaError_t submit_work(Lock& lock, CUstream_st& stream, Work work, OperationPtr* queued = nullptr);

/// Waits on the host: the operation is done, and the happens-before check knows it. Then memory
/// that pools hold above their threshold goes back.
void wait_for(Lock& lock, std::span<const OperationPtr> operations);
/// All that is queued on the device.
void wait_for_device(Lock& lock, int device);

}  // namespace cudasim
