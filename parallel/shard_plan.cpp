#include "heddle/parallel/shard_plan.h"

#include <algorithm>

#include "heddle/core/error.h"

namespace heddle {

ShardPlan::ShardPlan(int64_t samples, int64_t n_shards, int64_t n_devices)
    : n_samples(samples), shards(split_evenly(samples, n_shards)) {
  const int64_t n_filled = std::min(samples, n_shards);
  for (Range run : split_evenly(n_shards, n_devices)) {
    run.size = std::clamp<int64_t>(n_filled - run.begin, 0, run.size);
    devices.push_back(run);
  }
}

ShardPlan::ShardPlan(int64_t samples, const std::vector<int64_t>& weights) : n_samples(samples) {
  constexpr int64_t kLargestSum = int64_t{1} << 31;
  int64_t sum = 0;
  for (const int64_t weight : weights) {
    HEDDLE_CHECK(weight >= 0 && weight <= kLargestSum,
                 "DataParallel: a split with {}, expected 0 to {}", weight, kLargestSum);
    sum += weight;
  }
  HEDDLE_CHECK(sum >= 1 && sum <= kLargestSum,
               "DataParallel: a split that adds up to {}, expected 1 to {}", sum, kLargestSum);
  int64_t before = 0, begin = 0;
  for (const int64_t weight : weights) {
    before += weight;
    const int64_t end = samples * before / sum;
    devices.push_back({static_cast<int64_t>(shards.size()), end > begin ? 1 : 0});
    if (end > begin) shards.push_back({begin, end - begin});
    begin = end;
  }
}

double ShardPlan::share(int64_t shard) const {
  return static_cast<double>(shards[static_cast<size_t>(shard)].size) /
         static_cast<double>(n_samples);
}

}  // namespace heddle
