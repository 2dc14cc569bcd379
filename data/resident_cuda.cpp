#include "heddle/data/resident.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "heddle/core/buffer.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/device_span.h"
#include "heddle/core/event.h"
#include "heddle/core/phase.h"
#include "heddle/core/pinned_buffer.h"
#include "heddle/data/batch.h"
#include "heddle/data/device_augment.h"
#include "heddle/data/staging.h"
#include "heddle/kernels/augment_draws.h"
#include "heddle/kernels/permutation.h"

namespace heddle::detail {
namespace {

constexpr int64_t kLabelBytes = sizeof(int64_t);
constexpr int64_t kChunkPictures = 1024;  // 3 MiB: copies of that size run at the link's full speed

/// A data set in the memory of a device. Whoever queues work on it calls record_use.
struct ResidentSet {
  Buffer planes;  // (n, 3, 32, 32) bytes
  Buffer labels;  // (n) int64
  int64_t n = 0;
};

/// What an allocation may get: free for all, or kept in our own pool.
int64_t free_bytes(Device device) {
  const DeviceGuard guard(device);
  const MemoryStats stats = memory::stats(device);
  size_t free = 0, total = 0;
  HEDDLE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free) + std::max<int64_t>(0, stats.held - stats.in_use);
}

void check_fits(int64_t n, Device device) {
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
  const int64_t asked = n * (kImageBytes + kLabelBytes);
  const int64_t free = free_bytes(device);
  HEDDLE_CHECK(asked <= free / 2,
               "loader: {} resident pictures are {:.1f} MiB, {} has {:.1f} MiB free, of which half "
               "is for the network: use fewer pictures, or staging uint8",
               n, mebibytes(asked), device.to_string(), mebibytes(free));
}

/// Pictures on their way: one chunk is copied while the next is read from the files.
class Chunk {
 public:
  explicit Chunk(Device device)
      : memory_(kChunkPictures * (kImageBytes + kLabelBytes)), copied_(device) {}

  void read(const ImageDataset& dataset, int64_t begin, int64_t n) {
    copied_.synchronize();
#ifdef __CUDASIM__
    cudasim::host_access(memory_.data(), static_cast<size_t>(memory_.bytes()), true);
#endif
    for (int64_t i = 0; i < n; ++i) {
      const ImageRecord image = dataset.record(begin + i);
      std::memcpy(planes() + i * kImageBytes, image.planes, kImageBytes);
      labels()[i] = image.label;
    }
  }

  void send(const ResidentSet& set, int64_t begin, int64_t n, StreamRef stream) {
    const Device device = stream.device();
    memory::copy(set.planes.as<uint8_t>() + begin * kImageBytes, device, planes(), Device::cpu(),
                 n * kImageBytes, /*wait=*/false);
    memory::copy(set.labels.as<int64_t>() + begin, device, labels(), Device::cpu(), n * kLabelBytes,
                 /*wait=*/false);
    memory_.record_use(stream);
    copied_.record(stream);
  }

 private:
  uint8_t* planes() const { return memory_.as<uint8_t>(); }
  int64_t* labels() const {
    return reinterpret_cast<int64_t*>(memory_.as<std::byte>() + kChunkPictures * kImageBytes);
  }

  PinnedBuffer memory_;
  Event copied_;
};

/// The set is there when this returns.
std::shared_ptr<const ResidentSet> upload(const ImageDataset& dataset, int64_t n, Device device) {
  check_fits(n, device);
  const Stream stream(device);
  set_stream_name(stream, "copy");
  const StreamGuard guard(stream);
  const DeviceSpan span("copy data set", "copy", stream);
  auto set = std::make_shared<ResidentSet>();
  set->planes = Buffer(n * kImageBytes, stream);
  set->labels = Buffer(n * kLabelBytes, stream);
  set->n = n;
  Chunk chunks[] = {Chunk(device), Chunk(device)};
  for (int64_t begin = 0, k = 0; begin < n; begin += kChunkPictures, ++k) {
    const int64_t size = std::min(kChunkPictures, n - begin);
    dataset.check_source();
    chunks[k % 2].read(dataset, begin, size);
    dataset.check_source();  // that what was read was there
    chunks[k % 2].send(*set, begin, size, stream);
  }
  stream.synchronize();
  return set;
}

class ResidentRing : public StagingRing {
 public:
  ResidentRing(std::shared_ptr<const ResidentSet> set, const LoaderOptions& options,
               const ImageTransform& transform, int n_slots)
      : device_(options.device),
        sampler_(set->n, options.shuffle, options.seed),
        seed_(options.seed),
        ranges_(transform.ranges()),
        set_(std::move(set)),
        orders_(options.device),
        augment_(options, transform, orders_),
        ordered_(options.device),
        slots_(static_cast<size_t>(n_slots)) {
    set_stream_name(orders_, "order");
  }

  Batch host_batch(int slot, int64_t begin, int64_t) override {
    slot_of(slot).begin = begin;
    return {};
  }
  void wait(int) override {}
  void announce_refill(int) override {}
  void fill(int, const ImageDataset&, Batch&) override {}

  void send(int slot, const Batch& batch) override {
    slot_of(slot).batch = batch;
    if (epoch_ != batch.epoch) make_order(batch.epoch);
  }

  Batch receive(int index) override {
    const PhaseSpan span(Phase::kCopy, "receive batch");
    const DeviceGuard guard(device_);
    const Slot& slot = slot_of(index);
    const StreamRef stream = current_stream(device_);
    stream.wait(ordered_);
    order_.record_use(stream);
    set_->planes.record_use(stream);
    set_->labels.record_use(stream);
    Batch batch = std::move(slot_of(index).batch);
    const DeviceSpan device_span("gather batch", "copy", stream, batch.position);
    const int64_t n = batch.size();
    const int64_t* indices = order_.as<int64_t>() + slot.begin;
    batch.labels = Tensor::empty({n}, DType::kInt64, MemoryFormat::kContiguous, device_);
    const Buffer draws(n * int64_t{sizeof(AugmentDraw)}, stream);
    cuda::augment_draws({.draws = draws.as<AugmentDraw>(),
                         .labels = batch.labels.data<int64_t>(),
                         .indices = indices,
                         .set_labels = set_->labels.as<int64_t>(),
                         .n = n,
                         .ranges = ranges_,
                         .rng = augmentation(seed_, batch.epoch, 0)},
                        stream);
    batch.images = augment_.run(set_->planes.as<uint8_t>(), indices, draws, n, stream);
    return batch;
  }

  void drop() noexcept override {
    for (Slot& slot : slots_) slot.batch = {};
  }

 private:
  struct Slot {
    int64_t begin = 0;  // of the batch in the epoch's order
    Batch batch;        // without pictures
  };

  Slot& slot_of(int index) { return slots_[static_cast<size_t>(index)]; }

  /// The sampler's order of an epoch, on the device.
  void make_order(int64_t epoch) {
    const DeviceGuard guard(device_);
    const StreamGuard stream_guard(orders_);
    const int64_t n = sampler_.n_samples();
    if (sampler_.is_shuffled() || order_.data() == nullptr) {
      const DeviceSpan span("order samples", "copy", orders_, epoch);
      order_ = Buffer(n * int64_t{sizeof(int64_t)}, orders_);
      if (sampler_.is_shuffled()) {
        cuda::permutation({order_.as<int64_t>(), n, sampler_.stream(epoch)}, orders_);
      } else {
        memory::copy(order_.data(), device_, sampler_.order(epoch).data(), Device::cpu(),
                     order_.bytes());
      }
      ordered_.record(orders_);
    }
    epoch_ = epoch;
  }

  Device device_;
  Sampler sampler_;
  uint64_t seed_;
  AugmentRanges ranges_;
  std::shared_ptr<const ResidentSet> set_;
  Stream orders_;
  DeviceAugment augment_;
  Buffer order_;  // (n), of epoch_
  Event ordered_;
  int64_t epoch_ = -1;
  std::vector<Slot> slots_;
};

}  // namespace

MakeStagingRing make_resident(const ImageDataset& dataset, int64_t n_samples,
                              const std::vector<Device>& devices) {
  std::vector<std::pair<Device, std::shared_ptr<const ResidentSet>>> sets;
  const auto set_of = [](const auto& all, Device device) {
    return std::find_if(all.begin(), all.end(),
                        [&](const auto& entry) { return entry.first == device; });
  };
  for (const Device device : devices) {
    HEDDLE_CHECK(device.type == DeviceType::kCuda,
                 "loader: resident pictures need a CUDA device, {} is none", device.to_string());
    if (set_of(sets, device) == sets.end())
      sets.emplace_back(device, upload(dataset, n_samples, device));
  }
  return [sets, set_of](const LoaderOptions& options, const ImageTransform& transform,
                        int n_slots) -> std::unique_ptr<StagingRing> {
    return std::make_unique<ResidentRing>(set_of(sets, options.device)->second, options, transform,
                                          n_slots);
  };
}

}  // namespace heddle::detail
