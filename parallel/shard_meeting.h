#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "heddle/nn/ops/whole_batch.h"

namespace heddle {

/// Lets the shards of a batch, each on a thread of its own, meet wherever they compute a batch-norm
/// of the whole batch. Of one lane's shards one computes at a time: from meeting to meeting each in
/// turn, in their order. When all shards of all lanes have come, the last one has the lanes' tables
/// summed, in which each shard has filled in its own row and others are zero, and all go on. A
/// shard that fails, or that does not come where others do, ends the wait of all.
class ShardMeeting {
 public:
  /// Makes each of the tables, flat and one for each lane that has shards, the sum of all. It may
  /// queue work on the lanes' current streams: their threads wait meanwhile.
  using Share = std::function<void(std::vector<Tensor>& tables, const std::vector<int>& lanes)>;
  /// What is done on a shard's thread when others of its lane may compute, and when it goes on.
  using Turn = std::function<void(int lane, int64_t shard)>;

  ShardMeeting(Share share, Turn pause, Turn resume)
      : share_(std::move(share)), pause_(std::move(pause)), resume_(std::move(resume)) {}

  /// The shards of each lane that attend next. No thread is inside.
  void begin(const std::vector<int64_t>& n_shards);
  /// From the thread of a shard of a lane, numbered in it from 0: calls body, in which batch_norm
  /// meets the other shards. Errors: body's; shards that do not compute the same batch-norms.
  /// Returns where another shard has failed, which tells why.
  void attend(int lane, int64_t shard, const std::function<void()>& body);

 private:
  struct Lane {
    int64_t n_shards = 0;
    int64_t first_row = 0;  // of the tables
    int64_t turn = 0;       // the shard that computes
    Tensor table;           // flat; rows of those that have come so far
    Tensor shared;          // (shards of all lanes, 2, channels) of the last meeting
  };
  class Seat;
  struct Abandoned {};

  Lane& of(int lane) { return lanes_[static_cast<size_t>(lane)]; }
  WholeBatch::Parts meet(int lane, int64_t shard, const Tensor& first, const Tensor& second,
                         int64_t rows);
  void fill_row(Lane& mine, int64_t shard, const Tensor& first, const Tensor& second) const;
  void close_meeting();
  void check_attendance() const;
  void fail_all();

  Share share_;
  Turn pause_, resume_;
  std::mutex mutex_;  // of what follows, but for the tables, which are the computing shard's
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  std::vector<int64_t> rows_, shared_rows_;  // of each shard
  int64_t n_came_ = 0, n_left_ = 0;
  int64_t n_meetings_ = 0;
  bool failed_ = false;
};

}  // namespace heddle
