#include "heddle/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>

#include "heddle/core/trace.h"
#include "heddle/data/batch.h"
#include "heddle/data/staging.h"
#include "heddle/data/thread_pool.h"

namespace heddle {

/// What a loader and its passes share; passes may outlive the loader.
struct Loader::State {
  std::shared_ptr<const Dataset> dataset;
  const ImageDataset* images = nullptr;  // the same object, where it is one of pictures
  LoaderOptions options;
  ImageTransform transform;
  Sampler sampler;
  int64_t n_batches;
  std::mutex rings_mutex;
  std::vector<std::unique_ptr<detail::StagingRing>> rings;
  std::unique_ptr<ThreadPool> pool;  // last: its threads end before what they use

  State(std::shared_ptr<const Dataset> source, const LoaderOptions& chosen, int64_t n_samples)
      : dataset(std::move(source)),
        images(dynamic_cast<const ImageDataset*>(dataset.get())),
        options(chosen),
        transform(chosen.transform),
        sampler(n_samples, chosen.shuffle, chosen.seed),
        n_batches(chosen.drop_last ? n_samples / chosen.batch_size
                                   : (n_samples + chosen.batch_size - 1) / chosen.batch_size) {
    if (options.workers > 0) pool = std::make_unique<ThreadPool>(options.workers);
  }

  /// Whether batches go through pinned slots: pictures, whose size is known before the first.
  bool is_staged() const { return images != nullptr && options.device.type != DeviceType::kCpu; }

  /// Batches that are in the making or wait for the caller.
  int n_slots() const {
    const int ahead = options.prefetch > 0 ? options.prefetch : options.workers + 1;
    return is_staged() ? std::max(2, ahead) : ahead;  // one is filled while another is copied
  }

  /// A ring that no pass uses. Passes give theirs back, so that one after another has the same.
  std::unique_ptr<detail::StagingRing> take_ring() {
    const std::lock_guard lock(rings_mutex);
    if (rings.empty()) return detail::make_staging_ring(options, transform, n_slots());
    std::unique_ptr<detail::StagingRing> ring = std::move(rings.back());
    rings.pop_back();
    return ring;
  }

  void give_back(std::unique_ptr<detail::StagingRing> ring) {
    const std::lock_guard lock(rings_mutex);
    rings.push_back(std::move(ring));
  }

  /// In slot `slot` of `ring`, where the batch is staged.
  void fill(Batch& batch, detail::StagingRing* ring, int slot) const {
    if (ring != nullptr) ring->wait(slot);
    const TraceSpan span("prepare batch", "data", batch.position);
    dataset->check_source();
    if (ring != nullptr) {
      ring->fill(slot, *images, batch);
    } else if (images != nullptr) {
      detail::fill_image_batch(*images, transform, options.seed, batch);
    } else {
      detail::fill_sample_batch(*dataset, options.seed, batch);
    }
    dataset->check_source();  // that what was read was there
  }
};

/// One walk through an epoch: a ring of slots, each with a batch that a worker fills. The caller's
/// thread takes them in order, so the order does not depend on which is ready first.
class LoaderPass {
 public:
  LoaderPass(std::shared_ptr<Loader::State> state, LoaderPosition from)
      : state_(std::move(state)),
        epoch_(from.epoch),
        next_(from.batch),
        launched_(from.batch),
        order_(state_->sampler.order(from.epoch)) {
    if (state_->is_staged()) ring_ = state_->take_ring();
    slots_.resize(static_cast<size_t>(state_->n_slots()));
    launch();
  }

  /// Waits for the batches that are being made: they lie in this object's slots.
  ~LoaderPass() {
    cancelled_.store(true);
    for (Slot& slot : slots_)
      if (slot.done.valid()) slot.done.wait();
    if (ring_ == nullptr) return;
    ring_->drop();
    state_->give_back(std::move(ring_));
  }
  LoaderPass(const LoaderPass&) = delete;
  LoaderPass& operator=(const LoaderPass&) = delete;

  /// The next batch, or nothing at the epoch's end.
  std::optional<Batch> next() {
    if (next_ == state_->n_batches) return std::nullopt;
    Slot& slot = slot_of(next_);
    if (state_->pool == nullptr) {
      slot = {};
      slot.batch = empty_batch(next_);
      fill(slot);
    }
    finish(slot);
    ++next_;
    Batch batch = received(slot);
    launch();
    finish_ahead();
    return batch;
  }

 private:
  struct Slot {
    Batch batch;
    std::future<void> done;
    bool is_sent = false;      // to the device
    std::exception_ptr error;  // of this batch, met while the one before was handed out
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<size_t>(index_of(number))]; }
  int index_of(int64_t number) const {
    return static_cast<int>(number % static_cast<int64_t>(slots_.size()));
  }

  /// Memory is taken on the caller's thread, where the batch before was given back.
  Batch empty_batch(int64_t number) const {
    const int64_t begin = number * state_->options.batch_size;
    const int64_t end = std::min(begin + state_->options.batch_size, state_->sampler.n_samples());
    Batch batch;
    if (ring_ != nullptr) {
      batch = ring_->host_batch(index_of(number), end - begin);
    } else if (state_->images != nullptr) {
      batch = detail::empty_image_batch(end - begin, state_->options.dtype);
    }
    batch.indices.assign(order_.begin() + begin, order_.begin() + end);
    batch.epoch = epoch_;
    batch.position = number;
    return batch;
  }

  void launch() {
    if (state_->pool == nullptr) return;
    const int64_t end = std::min(state_->n_batches, next_ + static_cast<int64_t>(slots_.size()));
    for (; launched_ < end; ++launched_) {
      Slot& slot = slot_of(launched_);
      slot = {};
      slot.batch = empty_batch(launched_);
      slot.done = state_->pool->submit([this, &slot] {
        if (!cancelled_.load()) fill(slot);
      });
    }
  }

  void fill(Slot& slot) { state_->fill(slot.batch, ring_.get(), index_of(slot.batch.position)); }

  /// Waits for the slot's worker and queues the copy of what it has made.
  void finish(Slot& slot) {
    if (slot.error) std::rethrow_exception(slot.error);
    if (slot.done.valid()) slot.done.get();
    if (ring_ != nullptr && !slot.is_sent) ring_->send(index_of(slot.batch.position), slot.batch);
    slot.is_sent = true;
  }

  /// Queues the copy of the batch after this one, where it is made: it runs beside the caller's
  /// step.
  void finish_ahead() {
    if (ring_ == nullptr || next_ >= launched_) return;
    Slot& slot = slot_of(next_);
    if (slot.done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    try {
      finish(slot);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  Batch received(Slot& slot) {
    if (ring_ != nullptr) return ring_->receive(index_of(slot.batch.position));
    Batch batch = std::move(slot.batch);
    detail::move_batch(batch, state_->options.device);
    return batch;
  }

  std::shared_ptr<Loader::State> state_;
  int64_t epoch_;
  int64_t next_;      // the batch that the caller gets next
  int64_t launched_;  // the first batch that no worker has been given
  std::vector<int64_t> order_;
  std::unique_ptr<detail::StagingRing> ring_;  // where batches are staged
  std::vector<Slot> slots_;
  std::atomic<bool> cancelled_{false};
};

LoaderIterator::LoaderIterator(std::unique_ptr<LoaderPass> pass) : pass_(std::move(pass)) {
  ++*this;
}
LoaderIterator::~LoaderIterator() = default;
LoaderIterator::LoaderIterator(LoaderIterator&&) noexcept = default;
LoaderIterator& LoaderIterator::operator=(LoaderIterator&&) noexcept = default;

LoaderIterator& LoaderIterator::operator++() {
  HEDDLE_CHECK(pass_ != nullptr, "loader: the epoch has ended, there is no next batch");
  batch_ = {};  // first, so that the next batch can have its memory
  try {
    std::optional<Batch> next = pass_->next();
    if (next) {
      batch_ = std::move(*next);
    } else {
      pass_.reset();
    }
  } catch (...) {
    pass_.reset();
    throw;
  }
  return *this;
}

namespace {

int64_t checked_samples(const Dataset* dataset, const LoaderOptions& options) {
  HEDDLE_CHECK(dataset != nullptr, "loader: no dataset");
  HEDDLE_CHECK(options.batch_size >= 1, "loader: batch size is {}, expected at least 1",
               options.batch_size);
  HEDDLE_CHECK(options.workers >= 0, "loader: {} workers, expected 0 or more", options.workers);
  HEDDLE_CHECK(options.prefetch >= 0, "loader: prefetch is {}, expected 0 or more",
               options.prefetch);
  HEDDLE_CHECK(options.limit >= 0, "loader: limit is {}, expected 0 (all) or more", options.limit);
  const std::vector<Device> devices = Device::all();
  HEDDLE_CHECK(std::find(devices.begin(), devices.end(), options.device) != devices.end(),
               "loader: device is {}, which this {} lacks", options.device.to_string(),
               built_with_cuda() ? "machine" : "build");
  HEDDLE_CHECK(options.dtype == DType::kFloat32 || options.dtype == DType::kBFloat16,
               "loader: dtype is {}, expected float32 or bfloat16", options.dtype);
  int64_t n_samples = dataset->size();
  HEDDLE_CHECK(n_samples > 0, "loader: the dataset is empty");
  if (options.limit > 0) n_samples = std::min(n_samples, options.limit);
  HEDDLE_CHECK(!options.drop_last || n_samples >= options.batch_size,
               "loader: drop_last with {} samples and batch size {} leaves nothing", n_samples,
               options.batch_size);
  return n_samples;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  const int64_t n_samples = checked_samples(dataset.get(), options);
  state_ = std::make_shared<State>(std::move(dataset), options, n_samples);
}

int64_t Loader::size() const { return state_->n_batches; }

int64_t Loader::n_samples() const {
  const int64_t all = state_->sampler.n_samples();
  return state_->options.drop_last ? size() * state_->options.batch_size : all;
}

const Dataset& Loader::dataset() const { return *state_->dataset; }
const LoaderOptions& Loader::options() const { return state_->options; }

LoaderIterator Loader::begin() {
  const LoaderPosition from = next_;
  next_ = {from.epoch + 1, 0};
  return LoaderIterator(std::make_unique<LoaderPass>(state_, from));
}

void Loader::set_position(LoaderPosition position) {
  HEDDLE_CHECK(position.epoch >= 0 && position.batch >= 0 && position.batch <= size(),
               "loader: position is batch {} of epoch {}, an epoch has {} batches", position.batch,
               position.epoch, size());
  next_ = position.batch == size() ? LoaderPosition{position.epoch + 1, 0} : position;
}

}  // namespace heddle
