#pragma once

#include <memory>

#include "heddle/data/loader.h"

namespace heddle::detail {

/// Slots of pinned memory in which batches of pictures wait for their copy to a device, and the
/// stream that copies them. A slot is taken from the system once, when it is first asked for.
///
///   host: wait(slot), fill(slot, batch)  ->  send(slot): copy stream, then an event
///   receive(slot): the caller's stream waits for that event; wait(slot) for it too, before a
///   refill
///
/// A slot is used by one thread at a time; different slots by different threads.
class StagingRing {
 public:
  virtual ~StagingRing() = default;

  /// The batch whose pictures and labels lie in `slot`, for n pictures, which are at `begin` in the
  /// order of their epoch: the bytes of the records, or the transformed pictures. It is the ring's,
  /// and holds what the slot held before. One thread calls this.
  virtual Batch host_batch(int slot, int64_t begin, int64_t n) = 0;
  /// Waits on the host until the slot's last copy is done. Errors: CudaError of the device.
  virtual void wait(int slot) = 0;
  /// Tells cudasim's check of order that the host writes to the slot from now on; wait() does too.
  virtual void announce_refill(int slot) = 0;
  /// Fills a batch of host_batch, whose indices and epoch are set.
  virtual void fill(int slot, const ImageDataset& dataset, Batch& batch) = 0;
  /// Queues the copies of a filled batch.
  virtual void send(int slot, const Batch& batch) = 0;
  /// A batch that was sent, as tensors of the device, for the current stream of this thread: fresh
  /// memory, freed in the order of both streams.
  virtual Batch receive(int slot) = 0;
  /// Lets go of what was sent and not received.
  virtual void drop() noexcept = 0;
};

/// A ring of at most `n_slots` for batches of options.batch_size to `options.device`, a CUDA
/// device; `transform` lives as long as the ring.
std::unique_ptr<StagingRing> make_staging_ring(const LoaderOptions& options,
                                               const ImageTransform& transform, int n_slots);

}  // namespace heddle::detail
