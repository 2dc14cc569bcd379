#include "heddle/parallel/reducer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <utility>

#include "heddle/core/device_span.h"
#include "heddle/core/flavour.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {

/// What one lane has of a bucket.
struct Reducer::LaneBucket {
  Tensor flat;                // of the first shard, then the sum
  std::vector<Tensor> spare;  // for the shards after it
  Tensor running;             // of the shard at hand; undefined before its first tensor
  std::vector<bool> filled;   // by the shard at hand
  int n_filled = 0;
  bool open = false;  // the shard at hand may still put
  int64_t shards_done = 0;
  int64_t n_shards = 0;
  TreeSum tree;
};

struct Reducer::Bucket {
  FlatLayout layout;
  std::vector<LaneBucket> lanes;
  std::vector<std::atomic<bool>> was_put;
  int lanes_done = 0;
};

/// Where exchanges queue, beside the streams that compute.
struct Reducer::CommStreams {
#ifdef HEDDLE_WITH_CUDA
  std::vector<Stream> streams;
#endif
  std::vector<StreamRef> refs;

  explicit CommStreams(const std::vector<Device>& devices) {
#ifdef HEDDLE_WITH_CUDA
    for (const Device device : devices)
      if (device.type == DeviceType::kCuda) refs.push_back(streams.emplace_back(device).ref());
#endif
    for (const StreamRef stream : refs) set_stream_name(stream, "exchange");
    refs.resize(devices.size());
  }

  /// What is queued next for the lane's exchanges comes after its work so far.
  void follow([[maybe_unused]] int lane, [[maybe_unused]] Device device) const {
#ifdef HEDDLE_WITH_CUDA
    const StreamRef& mine = refs[static_cast<size_t>(lane)];
    if (mine.get() != nullptr) mine.wait(current_stream(device));
#endif
  }
  /// The lane's next work comes after its exchanges.
  void lead([[maybe_unused]] int lane, [[maybe_unused]] Device device) const {
#ifdef HEDDLE_WITH_CUDA
    const StreamRef& mine = refs[static_cast<size_t>(lane)];
    if (mine.get() != nullptr) current_stream(device).wait(mine);
#endif
  }
};

Reducer::Reducer(std::vector<Device> devices, Exchange exchange)
    : devices_(std::move(devices)),
      exchange_(std::move(exchange)),
      comm_(std::make_unique<CommStreams>(devices_)) {}

Reducer::~Reducer() {
  try {
    finish();  // an exchange may be under way where a lane failed, and uses the tensors
  } catch (const std::exception&) {
    // The device has failed: nothing runs there any more.
  }
}

int Reducer::add_bucket(FlatLayout layout) {
  auto bucket = std::make_unique<Bucket>();
  const auto n = static_cast<size_t>(layout.size());
  bucket->was_put = std::vector<std::atomic<bool>>(n);
  for (const Device device : devices_) {
    LaneBucket& mine = bucket->lanes.emplace_back();
    mine.flat = layout.make(device);
    mine.filled.resize(n);
  }
  bucket->layout = std::move(layout);
  buckets_.push_back(std::move(bucket));
  return static_cast<int>(buckets_.size()) - 1;
}

const FlatLayout& Reducer::layout(int bucket) const {
  return buckets_[static_cast<size_t>(bucket)]->layout;
}

Reducer::LaneBucket& Reducer::of(int lane, int bucket) {
  return buckets_[static_cast<size_t>(bucket)]->lanes[static_cast<size_t>(lane)];
}

void Reducer::begin(const std::vector<int64_t>& n_shards) {
  finish();  // what a failed step has left under way
  for (const auto& bucket : buckets_) {
    bucket->lanes_done = 0;
    for (auto& put : bucket->was_put) put = false;
    for (size_t lane = 0; lane < bucket->lanes.size(); ++lane) {
      LaneBucket& mine = bucket->lanes[lane];
      mine.running = {};
      mine.open = false;
      mine.shards_done = 0;
      mine.n_shards = n_shards[lane];
      mine.tree = {};
    }
  }
}

Tensor& Reducer::running(LaneBucket& mine, const FlatLayout& layout, Device device) {
  if (mine.running.defined()) return mine.running;
  if (mine.shards_done == 0) {
    mine.running = mine.flat;
  } else if (mine.spare.empty()) {
    mine.running = layout.make(device);
  } else {
    mine.running = std::move(mine.spare.back());
    mine.spare.pop_back();
  }
  return mine.running;
}

void Reducer::begin_shard(int lane, int bucket) {
  LaneBucket& mine = of(lane, bucket);
  std::fill(mine.filled.begin(), mine.filled.end(), false);
  mine.n_filled = 0;
  mine.open = true;
}

void Reducer::put(int lane, int bucket, int place, const Tensor& value, double factor) {
  const NoGradGuard no_grad;
  Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  LaneBucket& mine = of(lane, bucket);
  const size_t index = static_cast<size_t>(place);
  HEDDLE_CHECK(mine.open && !mine.filled[index],
               "DataParallel: {} has a second gradient in one backward", value.name());
  Tensor target = all.layout.view(running(mine, all.layout, value.device()), place);
  copy_(target, value);
  if (factor != 1.0) mul_(target, factor);
  mine.filled[index] = true;
  all.was_put[index] = true;
  if (++mine.n_filled == all.layout.size()) close_shard(lane, bucket);
}

void Reducer::end_shard(int lane, int bucket) {
  const NoGradGuard no_grad;
  LaneBucket& mine = of(lane, bucket);
  if (!mine.open) return;
  const FlatLayout& shape = layout(bucket);
  for (int place = 0; place < shape.size(); ++place) {
    if (mine.filled[static_cast<size_t>(place)]) continue;
    Tensor target = shape.view(running(mine, shape, devices_[static_cast<size_t>(lane)]), place);
    fill_(target, 0.0);
  }
  close_shard(lane, bucket);
}

void Reducer::close_shard(int lane, int bucket) {
  LaneBucket& mine = of(lane, bucket);
  mine.open = false;
  const auto keep = [&](std::vector<Tensor> freed) {
    std::move(freed.begin(), freed.end(), std::back_inserter(mine.spare));
  };
  keep(mine.tree.add(std::exchange(mine.running, {})));
  if (++mine.shards_done < mine.n_shards) return;
  keep(mine.tree.finish());
  lane_done(lane, bucket);
}

void Reducer::pass(int lane, int bucket) {
  const NoGradGuard no_grad;
  fill_(of(lane, bucket).flat, 0.0);
  lane_done(lane, bucket);
}

void Reducer::lane_done(int lane, int bucket) {
  const std::lock_guard lock(mutex_);
  comm_->follow(lane, devices_[static_cast<size_t>(lane)]);
  Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  if (++all.lanes_done < static_cast<int>(devices_.size())) return;
  const TraceSpan span("exchange bucket", "exchange", bucket);
  std::deque<DeviceSpan> spans;
  for (const StreamRef stream : comm_->refs)
    spans.emplace_back("exchange bucket", "exchange", stream, bucket);
  std::vector<Tensor> flats;
  for (const LaneBucket& mine : all.lanes) flats.push_back(mine.flat);
  exchange_.all_reduce(flats, comm_->refs);
}

void Reducer::finish() {
  for (size_t lane = 0; lane < devices_.size(); ++lane)
    comm_->lead(static_cast<int>(lane), devices_[lane]);
}

bool Reducer::was_put(int bucket, int place) const {
  return buckets_[static_cast<size_t>(bucket)]->was_put[static_cast<size_t>(place)];
}

Tensor Reducer::sum(int lane, int bucket, int place) const {
  const Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  return all.layout.view(all.lanes[static_cast<size_t>(lane)].flat, place);
}

}  // namespace heddle
