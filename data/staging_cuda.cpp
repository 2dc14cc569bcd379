#include <cuda_runtime.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "heddle/core/buffer.h"
#include "heddle/core/device_span.h"
#include "heddle/core/event.h"
#include "heddle/core/phase.h"
#include "heddle/data/batch.h"
#include "heddle/data/device_augment.h"
#include "heddle/data/staging.h"

namespace heddle::detail {
namespace {

constexpr int64_t kAlignment = 256;  // of each part of a slot: a copy begins at whole sectors

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// What is copied for a batch of up to `n` pictures, part after part.
struct Layout {
  int64_t images, labels, draws;  // where each begins
  int64_t bytes;

  Layout(int64_t n, int64_t image_bytes, bool with_draws) : images(0) {
    labels = aligned(n * image_bytes);
    draws = labels + aligned(n * size_of(DType::kInt64));
    bytes = draws + (with_draws ? aligned(n * int64_t{sizeof(AugmentDraw)}) : 0);
  }
};

Tensor part(const std::shared_ptr<Storage>& storage, int64_t begin, const Shape& shape, DType dtype,
            MemoryFormat format) {
  return Tensor::from_storage(storage, shape, strides_for(shape, format), begin / size_of(dtype),
                              dtype);
}

class CudaStagingRing : public StagingRing {
 public:
  CudaStagingRing(const LoaderOptions& options, const ImageTransform& transform, int n_slots)
      : device_(options.device),
        bytes_only_(options.staging != Staging::kFloat),
        dtype_(options.dtype),
        seed_(options.seed),
        transform_(transform),
        layout_(options.batch_size, kImageBytes * (bytes_only_ ? 1 : size_of(options.dtype)),
                bytes_only_),
        copies_(options.device),
        slots_(static_cast<size_t>(n_slots)) {
    set_stream_name(copies_, "copy");
    if (bytes_only_) augment_.emplace(options, transform, copies_);
  }

  ~CudaStagingRing() override {
    for (const std::unique_ptr<Slot>& slot : slots_) {
      try {
        if (slot != nullptr) slot->memory->record_use(copies_);
      } catch (const Error&) {
        // A device that failed: the error has reached the caller, and nothing copies any more.
      }
    }
  }
  CudaStagingRing(const CudaStagingRing&) = delete;
  CudaStagingRing& operator=(const CudaStagingRing&) = delete;

  Batch host_batch(int slot, int64_t, int64_t n) override {
    std::unique_ptr<Slot>& place = slots_[static_cast<size_t>(slot)];
    if (place == nullptr) place = std::make_unique<Slot>(device_, layout_.bytes);
    const std::shared_ptr<Storage>& memory = slot_of(slot).memory;
    const Shape shape = {n, kImageChannels, kImageSide, kImageSide};
    Batch batch;
    batch.images =
        bytes_only_ ? part(memory, layout_.images, shape, DType::kUInt8, MemoryFormat::kContiguous)
                    : part(memory, layout_.images, shape, dtype_, MemoryFormat::kChannelsLast);
    batch.labels = part(memory, layout_.labels, {n}, DType::kInt64, MemoryFormat::kContiguous);
    return batch;
  }

  void wait(int slot) override {
    slot_of(slot).copied.synchronize();
    announce_refill(slot);
  }

  void announce_refill([[maybe_unused]] int slot) override {
#ifdef __CUDASIM__
    cudasim::host_access(slot_of(slot).memory->data(), static_cast<size_t>(layout_.bytes), true);
#endif
  }

  void fill(int slot, const ImageDataset& dataset, Batch& batch) override {
    if (bytes_only_) {
      fill_byte_batch(dataset, transform_, seed_, draws_of(slot), batch);
    } else {
      fill_image_batch(dataset, transform_, seed_, batch);
    }
  }

  void send(int index, const Batch& batch) override {
    Slot& slot = slot_of(index);
    const StreamGuard guard(copies_);
    const DeviceSpan span("copy batch", "copy", copies_, batch.position);
    slot.there.images = sent(batch.images, device_);
    slot.there.labels = sent(batch.labels, device_);
    if (bytes_only_) {
      const int64_t bytes = batch.size() * int64_t{sizeof(AugmentDraw)};
      slot.draws = Buffer(bytes, copies_);
      copy(slot.draws.data(), draws_of(index), bytes);
    }
    slot.there.indices = batch.indices;
    slot.there.epoch = batch.epoch;
    slot.there.position = batch.position;
    slot.copied.record(copies_);
  }

  Batch receive(int index) override {
    const PhaseSpan span(Phase::kCopy, "receive batch");
    Slot& slot = slot_of(index);
    const StreamRef stream = current_stream(device_);
    stream.wait(slot.copied);
    Batch batch = std::move(slot.there);
    slot.there = {};
    batch.images.storage()->record_use(stream);
    batch.labels.storage()->record_use(stream);
    if (!bytes_only_) return batch;
    slot.draws.record_use(stream);
    batch.images =
        augment_->run(batch.images.data<uint8_t>(), nullptr, slot.draws, batch.size(), stream);
    slot.draws = {};
    return batch;
  }

  void drop() noexcept override {
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (slot == nullptr) continue;
      slot->there = {};
      slot->draws = {};
    }
  }

 private:
  struct Slot {
    Slot(Device device, int64_t bytes) : memory(pinned_storage(bytes)), copied(device) {}
    std::shared_ptr<Storage> memory;
    Event copied;  // the last copy out of `memory`; done before the first
    Batch there;   // sent, and not received
    Buffer draws;  // of `there`, where the device augments
  };

  Slot& slot_of(int index) { return *slots_[static_cast<size_t>(index)]; }

  AugmentDraw* draws_of(int slot) {
    auto* memory = static_cast<std::byte*>(slot_of(slot).memory->data());
    return reinterpret_cast<AugmentDraw*>(memory + layout_.draws);
  }

  void copy(void* there, const void* here, int64_t bytes) const {
    memory::copy(there, device_, here, Device::cpu(), bytes, /*wait=*/false);
  }

  Device device_;
  bool bytes_only_;  // are copied; the device augments
  DType dtype_;
  uint64_t seed_;
  const ImageTransform& transform_;
  Layout layout_;
  Stream copies_;
  std::optional<DeviceAugment> augment_;      // where the device does it
  std::vector<std::unique_ptr<Slot>> slots_;  // as many as there may be; none before its first use
};

}  // namespace

std::unique_ptr<StagingRing> make_staging_ring(const LoaderOptions& options,
                                               const ImageTransform& transform, int n_slots) {
  return std::make_unique<CudaStagingRing>(options, transform, n_slots);
}

}  // namespace heddle::detail
