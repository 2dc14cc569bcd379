#include "heddle/parallel/reducer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "heddle/core/device_span.h"
#include "heddle/core/flavour.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

#ifdef HEDDLE_WITH_CUDA
#include "heddle/core/event.h"
#endif

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

  /// They are never let go: a captured graph may use them.
  void keep_spare(std::vector<Tensor> freed) {
    for (Tensor& tensor : freed)
      if (tensor.defined() && tensor.raw_data() != flat.raw_data())
        spare.push_back(std::move(tensor));
  }
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
  std::vector<std::vector<Event>> ready;  // (bucket, lane)
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

  void add_bucket() {
#ifdef HEDDLE_WITH_CUDA
    std::vector<Event>& events = ready.emplace_back();
    for (const Stream& stream : streams) events.emplace_back(stream.device());
#endif
  }

  /// The lane's part of a bucket is what its stream has done so far.
  void mark([[maybe_unused]] int bucket, [[maybe_unused]] int lane) {
#ifdef HEDDLE_WITH_CUDA
    if (streams.empty()) return;
    const auto index = static_cast<size_t>(lane);
    ready[static_cast<size_t>(bucket)][index].record(current_stream(refs[index].device()));
#endif
  }
  /// What is queued next for exchanges comes after all lanes' parts of a bucket. Not when each lane
  /// is done: a lane's exchange of this bucket would wait for its work on the buckets after it.
  void follow_marks([[maybe_unused]] int bucket) const {
#ifdef HEDDLE_WITH_CUDA
    const std::vector<Event>& events = ready[static_cast<size_t>(bucket)];
    for (size_t lane = 0; lane < events.size(); ++lane) refs[lane].wait(events[lane]);
#endif
  }
  /// The lanes' next work comes after their exchanges.
  void lead() const {
#ifdef HEDDLE_WITH_CUDA
    for (const Stream& stream : streams) current_stream(stream.device()).wait(stream);
#endif
  }
  /// The host waits for the exchanges. A device that has failed says so at once, to every call.
  void finish() const noexcept {
#ifdef HEDDLE_WITH_CUDA
    for (const Stream& stream : streams) {
      try {
        stream.synchronize();
      } catch (const std::exception&) {
        // Nothing runs there any more.
      }
    }
#endif
  }
};

Reducer::Reducer(std::vector<Device> devices, Exchange exchange)
    : devices_(std::move(devices)),
      exchange_(std::move(exchange)),
      comm_(std::make_unique<CommStreams>(devices_)) {}

Reducer::~Reducer() {
  try {
    finish();  // an exchange may be under way, and uses the tensors
  } catch (const std::exception&) {
    give_up();
  }
}

int Reducer::add_bucket(FlatLayout layout) {
  auto bucket = std::make_unique<Bucket>();
  const auto n = static_cast<size_t>(layout.size());
  bucket->was_put = std::vector<std::atomic<bool>>(n);
  for (const Device device : devices_) bucket->lanes.emplace_back().flat = layout.make(device);
  bucket->layout = std::move(layout);
  comm_->add_bucket();
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
  for (const auto& bucket : buckets_) {
    bucket->lanes_done = 0;
    for (auto& put : bucket->was_put) put = false;
    for (size_t lane = 0; lane < bucket->lanes.size(); ++lane) {
      LaneBucket& mine = bucket->lanes[lane];
      mine.keep_spare(mine.tree.abandon());
      for (ShardBucket& shard : mine.shards) mine.keep_spare({std::move(shard.flat)});
      mine.shards.assign(static_cast<size_t>(n_shards[lane]), {});
      mine.shards_added = 0;
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
  while (mine.shards_added < shards.size() &&
         shards[mine.shards_added].state == ShardBucket::State::kClosed)
    mine.keep_spare(mine.tree.add(std::exchange(shards[mine.shards_added++].flat, {})));
  if (mine.shards_added < shards.size()) return;
  mine.keep_spare(mine.tree.finish());
  lane_done(lane, bucket);
}

void Reducer::pass(int lane, int bucket) {
  const NoGradGuard no_grad;
  fill_(of(lane, bucket).flat, 0.0);
  lane_done(lane, bucket);
}

void Reducer::lane_done(int lane, int bucket) {
  const std::lock_guard lock(mutex_);
  comm_->mark(bucket, lane);
  Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  if (++all.lanes_done < static_cast<int>(devices_.size())) return;
  comm_->follow_marks(bucket);
  const TraceSpan span("exchange bucket", "exchange", bucket);
  std::deque<DeviceSpan> spans;
  for (const StreamRef stream : comm_->refs)
    spans.emplace_back("exchange bucket", "exchange", stream, bucket);
  std::vector<Tensor> flats;
  for (const LaneBucket& mine : all.lanes) flats.push_back(mine.flat);
  exchange_.all_reduce(flats, comm_->refs);
}

void Reducer::finish() { comm_->lead(); }

void Reducer::give_up() noexcept { comm_->finish(); }

bool Reducer::was_put(int bucket, int place) const {
  return buckets_[static_cast<size_t>(bucket)]->was_put[static_cast<size_t>(place)];
}

Tensor Reducer::sum(int lane, int bucket, int place) const {
  const Bucket& all = *buckets_[static_cast<size_t>(bucket)];
  return all.layout.view(all.lanes[static_cast<size_t>(lane)].flat, place);
}

}  // namespace heddle
