#include "heddle/data/loader_pass.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "heddle/core/split.h"
#include "heddle/core/trace.h"
#include "heddle/data/batch.h"
#include "heddle/data/resident.h"

namespace heddle {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr int kMostWorkers = 256;
// A decision is about at least so much.
constexpr int kWindowBatches = 8;
constexpr double kWindowSeconds = 0.05;

int n_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// `device_lanes`: whether batches are copied to a device, where one is filled while another is
/// copied.
detail::LoaderLimits limits_of(const LoaderOptions& options, bool device_lanes) {
  detail::LoaderLimits limits;
  const bool idle = options.staging == Staging::kResident;  // nothing is left to workers
  const int workers = idle ? 0 : options.workers;
  const bool tuned = workers == kAutoWorkers;
  limits.lowest.workers = tuned ? 1 : workers;
  const int most = options.tune ? kMostWorkers : n_processors();
  limits.highest.workers = tuned ? most : workers;
  const int least = device_lanes ? 2 : 1;
  limits.lowest.prefetch =
      std::max(least, options.prefetch > 0 ? options.prefetch : limits.lowest.workers + 1);
  const bool fixed = options.prefetch > 0 || workers == 0;
  limits.highest.prefetch = fixed ? limits.lowest.prefetch : 2 * (limits.highest.workers + 1);
  return limits;
}

std::vector<Device> devices_of(const LoaderOptions& options) {
  return options.lanes.empty() ? std::vector<Device>{options.device} : options.lanes;
}

}  // namespace

Loader::State::State(std::shared_ptr<const Dataset> source, const LoaderOptions& chosen,
                     int64_t n_samples)
    : dataset(std::move(source)),
      images(dynamic_cast<const ImageDataset*>(dataset.get())),
      options(chosen),
      devices(devices_of(chosen)),
      transform(chosen.transform),
      sampler(n_samples, chosen.shuffle, chosen.seed),
      n_batches(chosen.drop_last ? n_samples / chosen.batch_size
                                 : (n_samples + chosen.batch_size - 1) / chosen.batch_size),
      limits(limits_of(chosen, std::any_of(devices.begin(), devices.end(),
                                           [&](Device device) { return is_staged(device); }))),
      tuner_(limits.lowest, limits) {
  static_cast<void>(split(batch_rows(0)));
  static_cast<void>(split(batch_rows(n_batches - 1)));
  if (options.staging == Staging::kResident) {
    HEDDLE_CHECK(images != nullptr, "loader: resident staging is for datasets of pictures");
    options.make_ring = detail::make_resident(*images, n_samples, devices);
  }
  if (limits.lowest.workers > 0) pool = std::make_unique<ThreadPool>(limits.lowest.workers);
}

int64_t Loader::State::batch_rows(int64_t number) const {
  return std::min(options.batch_size, sampler.n_samples() - number * options.batch_size);
}

std::vector<int64_t> Loader::State::split(int64_t n) const {
  const auto lanes = static_cast<int64_t>(devices.size());
  std::vector<int64_t> rows;
  if (options.split) {
    rows = options.split(n);
  } else {
    for (const Range& part : split_evenly(n, lanes)) rows.push_back(part.size);
  }
  const bool all = std::accumulate(rows.begin(), rows.end(), int64_t{0}) == n &&
                   std::all_of(rows.begin(), rows.end(), [](int64_t r) { return r >= 0; });
  HEDDLE_CHECK(all && static_cast<int64_t>(rows.size()) == lanes,
               "loader: the split of {} rows is ({}), expected parts of them for {} lanes", n,
               fmt::join(rows, ", "), lanes);
  return rows;
}

bool Loader::State::is_staged(Device device) const {
  return images != nullptr && (device.type != DeviceType::kCpu || options.make_ring);
}

Loader::State::Rings Loader::State::take_rings() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_rings_.empty()) {
      Rings rings = std::move(spare_rings_.back());
      spare_rings_.pop_back();
      return rings;
    }
  }
  const std::vector<int64_t> first = split(batch_rows(0)), last = split(batch_rows(n_batches - 1));
  const MakeStagingRing make = options.make_ring ? options.make_ring : detail::make_staging_ring;
  Rings rings(devices.size());
  for (size_t lane = 0; lane < devices.size(); ++lane) {
    LoaderOptions lane_options = options;
    lane_options.device = devices[lane];
    lane_options.batch_size = std::max(first[lane], last[lane]);
    if (!is_staged(devices[lane]) || lane_options.batch_size == 0) continue;
    rings[lane] = make(lane_options, transform, limits.highest.prefetch);
  }
  return rings;
}

void Loader::State::give_back(Rings rings) {
  const std::lock_guard lock(mutex_);
  spare_rings_.push_back(std::move(rings));
}

LoaderSize Loader::State::size() const {
  const std::lock_guard lock(mutex_);
  return tuner_.size();
}

void Loader::State::retune(const LoaderWaits& waits) {
  const std::lock_guard lock(mutex_);
  const LoaderSize before = tuner_.size();
  if (options.tune) {
    tuner_.set(options.tune(before, waits));
  } else {
    tuner_.next(waits);
  }
  LoaderSize size = tuner_.size();
  if (size == before) return;
  if (pool != nullptr && size.workers != before.workers) {
    try {
      pool->resize(size.workers);
    } catch (const Error&) {  // no more threads to be had: with those that there are
      size.workers = pool->n_threads();
      tuner_.set(size);
    }
  }
  const TraceSpan span(fmt::format("{} workers, {} ahead", size.workers, size.prefetch), "data");
}

LoaderPass::LoaderPass(std::shared_ptr<Loader::State> state, LoaderPosition from)
    : state_(std::move(state)),
      epoch_(from.epoch),
      next_(from.batch),
      launched_(from.batch),
      order_(state_->sampler.order(from.epoch)),
      rings_(state_->take_rings()) {}

LoaderPass::~LoaderPass() {
  cancelled_.store(true);
  for (Slot& slot : ahead_)
    if (slot.done.valid()) slot.done.wait();
  for (const auto& ring : rings_)
    if (ring != nullptr) ring->drop();
  state_->give_back(std::move(rings_));
}

std::optional<Batch> LoaderPass::next() {
  if (next_ == state_->n_batches) return std::nullopt;
  if (ahead_.empty()) launch();
  if (ahead_.empty()) fill(append(launched_++));  // there are no workers
  Slot& slot = ahead_.front();
  await(slot);
  send(slot);
  ++next_;
  Batch batch = received(slot);
  free_.push_back(slot.index);
  ahead_.pop_front();
  note_batch();
  launch();
  send_ahead();
  return batch;
}

/// The index that was freed first: its copies are the likeliest to be done.
int LoaderPass::free_index() {
  if (free_.empty() || n_indices_ < state_->size().prefetch) return n_indices_++;
  const int index = free_.front();
  free_.pop_front();
  return index;
}

/// Memory is taken on the caller's thread, where the batch before was given back.
Batch LoaderPass::empty_part(size_t lane, int index, int64_t begin, int64_t end) const {
  Batch part;
  if (begin < end && rings_[lane] != nullptr) {
    part = rings_[lane]->host_batch(index, begin, end - begin);
  } else if (begin < end && state_->images != nullptr) {
    part = detail::empty_image_batch(end - begin, state_->options.dtype);
  }
  part.indices.assign(order_.begin() + begin, order_.begin() + end);
  part.epoch = epoch_;
  return part;
}

LoaderPass::Slot& LoaderPass::append(int64_t number) {
  Slot& slot = ahead_.emplace_back();
  slot.index = free_index();
  int64_t begin = number * state_->options.batch_size;
  const std::vector<int64_t> rows = state_->split(state_->batch_rows(number));
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    slot.parts.push_back(empty_part(lane, slot.index, begin, begin + rows[lane]));
    slot.parts.back().position = number;
    begin += rows[lane];
  }
  return slot;
}

void LoaderPass::launch() {
  if (state_->pool == nullptr) return;
  const int64_t end = std::min(state_->n_batches, next_ + state_->size().prefetch);
  for (; launched_ < end; ++launched_) {
    Slot& slot = append(launched_);
    slot.done = state_->pool->submit([this, &slot] {
      if (!cancelled_.load()) fill(slot);
    });
  }
}

void LoaderPass::fill(Slot& slot) {
  for (size_t lane = 0; lane < slot.parts.size(); ++lane)
    if (slot.parts[lane].size() > 0) fill_part(lane, slot.index, slot.parts[lane]);
}

void LoaderPass::fill_part(size_t lane, int index, Batch& part) {
  detail::StagingRing* const ring = rings_[lane].get();
  if (ring != nullptr) ring->wait(index);
  const TraceSpan span("prepare batch", "data", part.position);
  const int64_t begin = detail::trace_clock();
  state_->dataset->check_source();
  if (ring != nullptr) {
    ring->fill(index, *state_->images, part);
  } else if (state_->images != nullptr) {
    detail::fill_image_batch(*state_->images, state_->transform, state_->options.seed, part);
  } else {
    detail::fill_sample_batch(*state_->dataset, state_->options.seed, part);
  }
  state_->dataset->check_source();  // that what was read was there
  worked_ += detail::trace_clock() - begin;
}

/// Until its worker has made it.
void LoaderPass::await(Slot& slot) {
  if (slot.error) std::rethrow_exception(slot.error);
  if (!slot.done.valid()) return;
  if (slot.done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const int64_t begin = detail::trace_clock();
    slot.done.wait();
    waits_.waited += static_cast<double>(detail::trace_clock() - begin) * kNanosecond;
  }
  slot.done.get();
}

/// Queues the copies to devices.
void LoaderPass::send(Slot& slot) {
  if (std::exchange(slot.is_sent, true)) return;
  for (size_t lane = 0; lane < slot.parts.size(); ++lane)
    if (rings_[lane] != nullptr && slot.parts[lane].size() > 0)
      rings_[lane]->send(slot.index, slot.parts[lane]);
}

/// Queues the copies of the next batch, where it is made: they run beside the caller's step.
void LoaderPass::send_ahead() {
  if (ahead_.empty()) return;
  Slot& slot = ahead_.front();
  if (slot.done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  try {
    await(slot);
    send(slot);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

Batch LoaderPass::received(Slot& slot) {
  Batch all;
  for (size_t lane = 0; lane < slot.parts.size(); ++lane) {
    Batch& part = slot.parts[lane];
    if (part.size() > 0 && rings_[lane] != nullptr) {
      part = rings_[lane]->receive(slot.index);
    } else if (part.size() > 0) {
      detail::move_batch(part, state_->devices[lane]);
    }
    if (state_->options.lanes.empty()) return std::move(part);
    all.epoch = part.epoch;
    all.position = part.position;
    all.parts.push_back({all.size(), std::move(part.images), std::move(part.labels)});
    all.indices.insert(all.indices.end(), part.indices.begin(), part.indices.end());
  }
  return all;
}

/// After each batch: from one to the next is what is measured, so the wait for a pass's first does
/// not count.
void LoaderPass::note_batch() {
  if (state_->pool == nullptr || state_->limits.is_fixed()) return;
  const int64_t now = detail::trace_clock();
  const std::optional<int64_t> before = std::exchange(last_note_, now);
  if (!before) {
    waits_ = {};
    worked_ = 0;
    return;
  }
  waits_.elapsed += static_cast<double>(now - *before) * kNanosecond;
  ++waits_.batches;
  const bool enough = waits_.batches >= kWindowBatches && waits_.elapsed >= kWindowSeconds;
  if (!enough && !state_->options.tune) return;
  waits_.worked = static_cast<double>(worked_.exchange(0)) * kNanosecond;
  state_->retune(std::exchange(waits_, {}));
}

}  // namespace heddle
