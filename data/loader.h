#pragma once

#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "heddle/core/device.h"
#include "heddle/data/dataset.h"
#include "heddle/data/loader_tuning.h"
#include "heddle/data/sampler.h"
#include "heddle/data/transforms.h"

namespace heddle {

struct LoaderOptions;
namespace detail {
class StagingRing;
}
/// Makes slots for a lane: as detail::make_staging_ring (data/staging.h).
using MakeStagingRing = std::function<std::unique_ptr<detail::StagingRing>(
    const LoaderOptions& options, const ImageTransform& transform, int n_slots)>;

/// What goes to a CUDA device for a batch of pictures. The device gets the same bits either way.
enum class Staging {
  kUint8,  ///< the records' bytes, a quarter of the traffic; the device crops, flips, normalises
  kFloat,  ///< the pictures as the workers have transformed them
  /// Nothing in a step: all pictures are copied once, when the loader is made, and the device
  /// orders, gathers, draws and transforms. For pictures on CUDA devices that have the room: twice
  /// as much free memory. Workers have nothing to do, and there are none.
  kResident,
};

/// As many workers as the caller's waits ask for, at most one for each processor.
inline constexpr int kAutoWorkers = -1;

struct LoaderOptions {
  int64_t batch_size = 1;  ///< Units: samples.
  bool shuffle = false;    ///< A new order each epoch.
  /// Threads that make batches ahead; 0: made when asked for.
  int workers = 0;
  Device device = Device::cpu();      ///< Where the batches go.
  uint64_t seed = 0;                  ///< Of the order and of all augmentation.
  TransformOptions transform = {};    ///< For an ImageDataset; others transform in `get` or `draw`.
  bool drop_last = false;             ///< Leave out a last batch that is not full.
  int prefetch = 0;                   ///< Batches made ahead; 0: as many as waits ask for.
  int64_t limit = 0;                  ///< Use the first `limit` samples only; 0: all.
  DType dtype = DType::kFloat32;      ///< Of an ImageDataset's pictures: kFloat32 or kBFloat16.
  Staging staging = Staging::kUint8;  ///< Of an ImageDataset's pictures to a CUDA device.
  /// Several devices, where `device` is not looked at: each gets rows of its own of every batch
  /// (Batch::parts), through slots and a copy stream of its own.
  std::vector<Device> lanes = {};
  /// How many rows of a batch of n each lane gets, the first lane the first ones; 0 is allowed. Not
  /// given: as evenly as can be, the longer parts first.
  std::function<std::vector<int64_t>(int64_t n)> split = {};
  /// Slots to stage pictures in, on the CPU too, instead of the device's own: for measurements.
  MakeStagingRing make_ring = {};
  /// Decides instead of the loader itself, after each batch: up to 256 workers. Results do not
  /// depend on it.
  std::function<LoaderSize(LoaderSize now, const LoaderWaits& waits)> tune = {};
};

/// Rows of a batch that one device computes.
struct BatchPart {
  int64_t first_row = 0;  ///< In the batch.
  Tensor images;          ///< As Batch's; undefined where the lane has no rows.
  Tensor labels;

  int64_t size() const { return labels.defined() ? labels.size(0) : 0; }
};

/// Samples stacked along a new first dimension. Memory of its own: a batch that is kept is never
/// overwritten, and one that is let go gives its memory to a later batch.
struct Batch {
  Tensor images;  ///< (n, ...sample); (n, channels, height, width) is stored channels-last
  Tensor labels;  ///< (n) int64
  std::vector<int64_t> indices;  ///< of the samples in the dataset
  int64_t epoch = 0;
  int64_t position = 0;  ///< Number of the batch in its epoch.
  /// Of a loader with lanes, one each; `images` and `labels` are undefined then.
  std::vector<BatchPart> parts;

  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

class LoaderPass;

/// Walks one epoch. Move-only; when it goes, batches that are still being made are waited for and
/// dropped, so leaving a loop early is safe.
class LoaderIterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit LoaderIterator(std::unique_ptr<LoaderPass> pass);
  ~LoaderIterator();
  LoaderIterator(LoaderIterator&&) noexcept;
  LoaderIterator& operator=(LoaderIterator&&) noexcept;

  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  /// Errors: what the dataset threw for a sample of this batch; the batches before it arrive.
  LoaderIterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return pass_ == nullptr; }

 private:
  std::unique_ptr<LoaderPass> pass_;
  Batch batch_;
};

/// Makes batches of a dataset, with worker threads where asked for. Each `for` loop over it is one
/// epoch, and the next loop the next epoch (with another order and other augmentation).
///
///   Loader loader(Cifar10(path, Split::kTrain), {.batch_size = 64, .shuffle = true, .workers =
///   4}); for (const Batch& batch : loader) { ... }
///
/// Order, contents and draws depend on (seed, epoch, sample) alone: any number of workers gives the
/// same batches, and so does continuing from a position.
class Loader {
 public:
  /// Errors: an empty dataset; batch_size < 1; workers, prefetch or limit < 0; drop_last with fewer
  /// samples than a batch; a device that this build or machine lacks; a split that is not of all
  /// rows; Staging::kResident for other samples, on the CPU, or where memory is short.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  template <std::derived_from<Dataset> D>
  Loader(D dataset, const LoaderOptions& options)
      : Loader(std::make_shared<const D>(std::move(dataset)), options) {}

  int64_t size() const;       ///< Batches an epoch.
  int64_t n_samples() const;  ///< Samples an epoch, without those that drop_last leaves out.
  const Dataset& dataset() const;
  const LoaderOptions& options() const;
  /// Workers and batches ahead as they are now: given, or what the waits have led to.
  LoaderSize in_use() const;

  /// Starts the epoch at `position()`, and moves that to the next epoch's beginning.
  LoaderIterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Where the next `begin` starts.
  LoaderPosition position() const { return next_; }
  /// To continue after batch k of epoch e, set {e, k + 1}; one past an epoch's last batch is the
  /// next epoch's beginning. Errors: negative, or the epoch has no such batch.
  void set_position(LoaderPosition position);

 private:
  friend class LoaderPass;
  struct State;
  std::shared_ptr<State> state_;
  LoaderPosition next_;
};

}  // namespace heddle
