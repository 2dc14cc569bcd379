#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "heddle/parallel/exchange.h"
#include "heddle/parallel/flat.h"

namespace heddle {

/// Sums sets of tensors over the shards of all lanes, set by set as they become ready: the buckets
/// of a DataParallel. A lane puts the tensors of a shard into a bucket; when the last shard of a
/// lane has filled it, that lane has done its part, and the last lane to do so queues the exchange
/// for all. No lane ever waits for another.
class Reducer {
 public:
  Reducer(std::vector<Device> devices, Exchange exchange);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// A bucket of this layout. Returns its number.
  int add_bucket(FlatLayout layout);
  const FlatLayout& layout(int bucket) const;

  /// Starts over after finish() or give_up(), whatever was left behind: the next sum is of
  /// n_shards[lane] shards of each lane.
  void begin(const std::vector<int64_t>& n_shards);
  /// From lane's thread, before a shard's first put.
  void begin_shard(int lane, int64_t shard, int bucket);
  /// From lane's thread: adds `value` times `factor` as tensor `place` of the shard.
  void put(int lane, int64_t shard, int bucket, int place, const Tensor& value,
           double factor = 1.0);
  /// From lane's thread: what the shard did not put counts as zero.
  void end_shard(int lane, int64_t shard, int bucket);
  /// From lane's thread, once, where the lane has no shard at all.
  void pass(int lane, int bucket);
  /// After all lanes: their streams wait for the sums.
  void finish();
  /// Instead, where a lane has failed: the host waits for the exchanges that are under way.
  void give_up() noexcept;
  /// Whether any lane put tensor `place` since begin().
  bool was_put(int bucket, int place) const;
  /// The sum of tensor `place` on a lane's device, good until the next begin().
  Tensor sum(int lane, int bucket, int place) const;
  const ExchangeTraffic& traffic() const { return exchange_.traffic(); }

 private:
  struct ShardBucket;
  struct LaneBucket;
  struct Bucket;
  struct CommStreams;

  LaneBucket& of(int lane, int bucket);
  Tensor& flat_of(LaneBucket& mine, int64_t shard, const FlatLayout& layout, Device device);
  void close_shard(int lane, int64_t shard, int bucket);
  void lane_done(int lane, int bucket);

  std::vector<Device> devices_;
  Exchange exchange_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::unique_ptr<CommStreams> comm_;
  std::mutex mutex_;  // of the exchange, and of who is done with what
};

}  // namespace heddle
