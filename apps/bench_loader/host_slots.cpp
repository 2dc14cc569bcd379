#include "heddle/apps/bench_loader/host_slots.h"

#include <vector>

#include "heddle/data/batch.h"
#include "heddle/nn/ops.h"

namespace heddle::bench_loader {
namespace {

class HostSlots : public detail::StagingRing {
 public:
  HostSlots(const LoaderOptions& options, const ImageTransform& transform, int n_slots)
      : options_(options), transform_(transform), slots_(static_cast<size_t>(n_slots)) {}

  Batch host_batch(int index, int64_t, int64_t n) override {
    Slot& slot = slots_[static_cast<size_t>(index)];
    if (slot.draws.empty()) slot = new_slot();
    Batch batch;
    batch.images = narrow(slot.whole.images, 0, 0, n);
    batch.labels = narrow(slot.whole.labels, 0, 0, n);
    return batch;
  }
  void wait(int) override {}
  void announce_refill(int) override {}
  void fill(int index, const ImageDataset& dataset, Batch& batch) override {
    Slot& slot = slots_[static_cast<size_t>(index)];
    if (options_.staging == Staging::kUint8) {
      detail::fill_byte_batch(dataset, transform_, options_.seed, slot.draws.data(), batch);
    } else {
      detail::fill_image_batch(dataset, transform_, options_.seed, batch);
    }
  }
  void send(int index, const Batch& batch) override {
    slots_[static_cast<size_t>(index)].filled = batch;
  }
  Batch receive(int index) override { return std::move(slots_[static_cast<size_t>(index)].filled); }
  void drop() noexcept override {
    for (Slot& slot : slots_) slot.filled = {};
  }

 private:
  struct Slot {
    Batch whole, filled;
    std::vector<AugmentDraw> draws;
  };

  Slot new_slot() const {
    const int64_t n = options_.batch_size;
    Slot slot;
    slot.draws.resize(static_cast<size_t>(n));
    slot.whole = detail::empty_image_batch(n, DType::kFloat32);
    if (options_.staging == Staging::kUint8)
      slot.whole.images = Tensor::empty({n, kImageChannels, kImageSide, kImageSide}, DType::kUInt8);
    return slot;
  }

  LoaderOptions options_;
  const ImageTransform& transform_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<detail::StagingRing> make_host_slots(const LoaderOptions& options,
                                                     const ImageTransform& transform, int n_slots) {
  return std::make_unique<HostSlots>(options, transform, n_slots);
}

}  // namespace heddle::bench_loader
