#include "heddle/parallel/split.h"

#include <algorithm>

#include "heddle/core/error.h"

namespace heddle {

std::vector<Range> split_evenly(int64_t n, int64_t parts) {
  HEDDLE_CHECK(n >= 0 && parts >= 1, "split_evenly: {} in {} parts, expected n >= 0, parts >= 1", n,
               parts);
  std::vector<Range> result;
  int64_t begin = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t size = n / parts + (part < n % parts ? 1 : 0);
    result.push_back({begin, size});
    begin += size;
  }
  return result;
}

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
