#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "heddle/data/loader.h"
#include "heddle/data/staging.h"
#include "heddle/data/thread_pool.h"

namespace heddle {

/// What a loader and its passes share; passes may outlive the loader.
struct Loader::State {
  /// Where a lane's parts of batches are staged; null where they are not.
  using Rings = std::vector<std::unique_ptr<detail::StagingRing>>;

  State(std::shared_ptr<const Dataset> source, const LoaderOptions& chosen, int64_t n_samples);

  int64_t batch_rows(int64_t number) const;
  /// Rows of each lane in a batch of n. Errors: a split that is not of n rows.
  std::vector<int64_t> split(int64_t n) const;
  /// Whether a lane's pictures go through pinned slots: their size is known before the first.
  bool is_staged(Device device) const;

  /// Rings that no pass uses. Passes give theirs back, so that one after another has the same.
  Rings take_rings();
  void give_back(Rings rings);

  LoaderSize size() const;
  /// Takes in what a pass has measured, and resizes.
  void retune(const LoaderWaits& waits);

  std::shared_ptr<const Dataset> dataset;
  const ImageDataset* images = nullptr;  // the same object, where it is one of pictures
  LoaderOptions options;
  std::vector<Device> devices;  // lanes, or the one device
  ImageTransform transform;
  Sampler sampler;
  int64_t n_batches;
  detail::LoaderLimits limits;

 private:
  std::vector<Rings> spare_rings_;
  detail::LoaderTuner tuner_;
  mutable std::mutex mutex_;  // of the two above, and of the pool's size

 public:
  std::unique_ptr<ThreadPool> pool;  // last: its threads end before what they use
};

/// One walk through an epoch: batches that workers fill, in their order. The caller's thread takes
/// them in order, so the order does not depend on which is ready first.
class LoaderPass {
 public:
  LoaderPass(std::shared_ptr<Loader::State> state, LoaderPosition from);
  /// Waits for the batches that are being made.
  ~LoaderPass();
  LoaderPass(const LoaderPass&) = delete;
  LoaderPass& operator=(const LoaderPass&) = delete;

  /// The next batch, or nothing at the epoch's end.
  std::optional<Batch> next();

 private:
  /// A batch that is in the making or waits for the caller.
  struct Slot {
    std::vector<Batch> parts;  // one a lane; no indices where it has no rows
    int index = 0;             // of its places in the rings
    std::future<void> done;
    bool is_sent = false;      // to the devices
    std::exception_ptr error;  // of this batch, met while the one before was handed out
  };

  int free_index();
  Batch empty_part(size_t lane, int index, int64_t begin, int64_t end) const;
  Slot& append(int64_t number);
  void launch();
  void fill(Slot& slot);
  void fill_part(size_t lane, int index, Batch& part);
  void await(Slot& slot);
  void send(Slot& slot);
  void send_ahead();
  Batch received(Slot& slot);
  void note_batch();

  std::shared_ptr<Loader::State> state_;
  int64_t epoch_;
  int64_t next_;      // the batch that the caller gets next, ahead_'s first
  int64_t launched_;  // the first batch that is not in ahead_
  std::vector<int64_t> order_;
  Loader::State::Rings rings_;
  std::deque<Slot> ahead_;  // workers hold references to what is in it
  std::deque<int> free_;    // indices that no batch in ahead_ has, the one freed first in front
  int n_indices_ = 0;
  std::atomic<bool> cancelled_{false};
  LoaderWaits waits_;                 // since the last retuning
  std::atomic<int64_t> worked_{0};    // nanoseconds, of the workers, since then
  std::optional<int64_t> last_note_;  // nanoseconds of the clock
};

}  // namespace heddle
