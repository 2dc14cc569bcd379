#include "heddle/parallel/shard_plan.h"

#include <algorithm>

namespace heddle {

ShardPlan::ShardPlan(int64_t samples, int64_t n_shards, int64_t n_devices)
    : n_samples(samples), shards(split_evenly(samples, n_shards)) {
  const int64_t n_filled = std::min(samples, n_shards);
  for (Range run : split_evenly(n_shards, n_devices)) {
    run.size = std::clamp<int64_t>(n_filled - run.begin, 0, run.size);
    devices.push_back(run);
  }
}

double ShardPlan::share(int64_t shard) const {
  return static_cast<double>(shards[static_cast<size_t>(shard)].size) /
         static_cast<double>(n_samples);
}

}  // namespace heddle
