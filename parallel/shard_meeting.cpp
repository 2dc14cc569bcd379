#include "heddle/parallel/shard_meeting.h"

#include <utility>

#include "heddle/core/tape.h"
#include "heddle/core/trace.h"
#include "heddle/nn/ops.h"

namespace heddle {

/// What batch_norm sees of the meeting.
class ShardMeeting::Seat final : public WholeBatch {
 public:
  Seat(ShardMeeting& meeting, int lane, int64_t shard)
      : meeting_(meeting), lane_(lane), shard_(shard) {}
  Parts collect(const Tensor& first, const Tensor& second, int64_t rows) override {
    return meeting_.meet(lane_, shard_, first, second, rows);
  }
  bool leads() const override { return shard_ == 0; }

 private:
  ShardMeeting& meeting_;
  int lane_;
  int64_t shard_;
};

void ShardMeeting::begin(const std::vector<int64_t>& n_shards) {
  lanes_.assign(n_shards.size(), {});
  int64_t n = 0;
  for (size_t i = 0; i < n_shards.size(); ++i) {
    lanes_[i].n_shards = n_shards[i];
    lanes_[i].first_row = n;
    n += n_shards[i];
  }
  rows_.assign(static_cast<size_t>(n), 0);
  n_came_ = n_left_ = n_meetings_ = 0;
  failed_ = false;
}

void ShardMeeting::attend(int lane, int64_t shard, const std::function<void()>& body) {
  Lane& mine = of(lane);
  try {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return failed_ || mine.turn == shard; });
      if (failed_) return;
    }
    Seat seat(*this, lane, shard);
    const WholeBatch::Scope scope(seat);
    body();
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    ++n_left_;
    check_attendance();
    mine.turn = shard + 1;
    changed_.notify_all();
  } catch (const Abandoned&) {
  } catch (...) {
    fail_all();
    throw;
  }
}

WholeBatch::Parts ShardMeeting::meet(int lane, int64_t shard, const Tensor& first,
                                     const Tensor& second, int64_t rows) {
  const NoGradGuard no_grad;
  const TraceSpan span("meet the other shards", "exchange");
  Lane& mine = of(lane);
  fill_row(mine, shard, first, second);
  pause_(lane, shard);
  std::unique_lock lock(mutex_);
  if (failed_) throw Abandoned();
  rows_[static_cast<size_t>(mine.first_row + shard)] = rows;
  const int64_t number = n_meetings_;
  mine.turn = shard + 1;
  ++n_came_;
  check_attendance();
  if (n_came_ == static_cast<int64_t>(rows_.size())) close_meeting();
  changed_.notify_all();
  changed_.wait(lock, [&] { return failed_ || (n_meetings_ > number && mine.turn == shard); });
  if (failed_) throw Abandoned();
  WholeBatch::Parts parts{mine.shared, shared_rows_};
  lock.unlock();
  resume_(lane, shard);
  return parts;
}

void ShardMeeting::fill_row(Lane& mine, int64_t shard, const Tensor& first,
                            const Tensor& second) const {
  const int64_t channels = first.numel(), n_rows = static_cast<int64_t>(rows_.size());
  if (!mine.table.defined())
    mine.table = zeros({n_rows * 2 * channels}, first.dtype(), first.device());
  HEDDLE_CHECK(mine.table.numel() == n_rows * 2 * channels,
               "DataParallel: shard {} of its device computes a batch-norm of {} channels, another "
               "one of {}; expected the same layers for all",
               shard, channels, mine.table.numel() / (2 * n_rows));
  const int64_t begin = mine.table.offset() + (mine.first_row + shard) * 2 * channels;
  Tensor means = mine.table.as_strided({channels}, {1}, begin);
  Tensor squares = mine.table.as_strided({channels}, {1}, begin + channels);
  copy_(means, first);
  copy_(squares, second);
}

/// All have come: what each has found out goes to all.
void ShardMeeting::close_meeting() {
  std::vector<Tensor> tables;
  std::vector<int> lanes;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].n_shards == 0) continue;
    lanes.push_back(static_cast<int>(i));
    tables.push_back(std::exchange(lanes_[i].table, {}));
    HEDDLE_CHECK(tables.back().numel() == tables.front().numel(),
                 "DataParallel: devices compute batch-norms of different channels at a time, "
                 "expected the same layers for all");
  }
  if (tables.size() > 1) share_(tables, lanes);
  const int64_t n_rows = static_cast<int64_t>(rows_.size());
  const int64_t channels = tables.front().numel() / (2 * n_rows);
  for (size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = of(lanes[i]);
    lane.shared = tables[i].as_strided({n_rows, 2, channels}, {2 * channels, channels, 1},
                                       tables[i].offset());
    lane.turn = 0;
  }
  shared_rows_ = rows_;
  n_came_ = 0;
  ++n_meetings_;
}

void ShardMeeting::check_attendance() const {
  HEDDLE_CHECK(n_came_ == 0 || n_left_ == 0,
               "DataParallel: {} of {} shards compute a batch-norm that another one does not have; "
               "expected the same layers for all",
               n_came_, rows_.size());
}

void ShardMeeting::fail_all() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

}  // namespace heddle
