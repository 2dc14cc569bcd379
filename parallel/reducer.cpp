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

/// What one shard has of a bucket.
struct Reducer::ShardBucket {
  Tensor flat;               // undefined before its first tensor
  std::vector<bool> filled;  // by place
  int n_filled = 0;
  enum class State { kBefore, kOpen, kClosed } state = State::kBefore;  // open: it may still put
};

/// What one lane has of a bucket.
struct Reducer::LaneBucket {
  Tensor flat;                // of the first shard, then the sum
  std::vector<Tensor> spare;  // for the shards after it
  std::vector<ShardBucket> shards;
  size_t shards_added = 0;
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
  for (const Device device : devices_) bucket->lanes.emplace_back().flat = layout.make(device);
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
      mine.shards.assign(static_cast<size_t>(n_shards[lane]), {});
      mine.shards_added = 0;
      mine.tree = {};
    }
  }
}

Tensor& Reducer::flat_of(LaneBucket& mine, int64_t shard, const FlatLayout& layout, Device device) {
  Tensor& flat = mine.shards[static_cast<size_t>(shard)].flat;
  if (flat.defined()) return flat;
  if (shard == 0) {
    flat = mine.flat;
  } else if (mine.spare.empty()) {
    flat = layout.make(device);
  } else {
    flat = std::move(mine.spare.back());
    mine.spare.pop_back();
  }
  return flat;
}

void Reducer::begin_shard(int lane, int64_t shard, int bucket) {
  ShardBucket& mine = of(lane, bucket).shards[static_cast<size_t>(shard)];
  mine.filled.assign(static_cast<size_t>(layout(bucket).size()), false);
  mine.state = ShardBucket::State::kOpen;
}

void Reducer::put(int lane, int64_t shard, int bucket, int place, const Tensor& value,
                  double factor) {
  const NoGradGuard no_grad;
  Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  LaneBucket& of_lane = of(lane, bucket);
  ShardBucket& mine = of_lane.shards[static_cast<size_t>(shard)];
  const size_t index = static_cast<size_t>(place);
  HEDDLE_CHECK(mine.state == ShardBucket::State::kOpen && !mine.filled[index],
               "DataParallel: {} has a second gradient in one backward", value.name());
  Tensor target = all.layout.view(flat_of(of_lane, shard, all.layout, value.device()), place);
  copy_(target, value);
  if (factor != 1.0) mul_(target, factor);
  mine.filled[index] = true;
  all.was_put[index] = true;
  if (++mine.n_filled == all.layout.size()) close_shard(lane, shard, bucket);
}

void Reducer::end_shard(int lane, int64_t shard, int bucket) {
  const NoGradGuard no_grad;
  LaneBucket& of_lane = of(lane, bucket);
  ShardBucket& mine = of_lane.shards[static_cast<size_t>(shard)];
  if (mine.state != ShardBucket::State::kOpen) return;
  const FlatLayout& shape = layout(bucket);
  Tensor& flat = flat_of(of_lane, shard, shape, devices_[static_cast<size_t>(lane)]);
  for (int place = 0; place < shape.size(); ++place) {
    if (mine.filled[static_cast<size_t>(place)]) continue;
    Tensor target = shape.view(flat, place);
    fill_(target, 0.0);
  }
  close_shard(lane, shard, bucket);
}

void Reducer::close_shard(int lane, int64_t shard, int bucket) {
  LaneBucket& mine = of(lane, bucket);
  std::vector<ShardBucket>& shards = mine.shards;
  shards[static_cast<size_t>(shard)].state = ShardBucket::State::kClosed;
  const auto keep = [&](std::vector<Tensor> freed) {
    std::move(freed.begin(), freed.end(), std::back_inserter(mine.spare));
  };
  while (mine.shards_added < shards.size() &&
         shards[mine.shards_added].state == ShardBucket::State::kClosed)
    keep(mine.tree.add(std::exchange(shards[mine.shards_added++].flat, {})));
  if (mine.shards_added < shards.size()) return;
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
