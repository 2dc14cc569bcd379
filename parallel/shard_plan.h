#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/split.h"

namespace heddle {

/// How a batch of n samples is computed: cut into shards, whoever computes them, and the shards
/// dealt out to devices in runs.
struct ShardPlan {
  ShardPlan(int64_t n_samples, int64_t n_shards, int64_t n_devices);
  /// A shard for each device, of sizes in proportion to `weights`, the cuts rounded down. Devices
  /// that would have none have no shard. Errors: a weight < 0, or their sum not 1 to 2^31.
  ShardPlan(int64_t n_samples, const std::vector<int64_t>& weights);

  int64_t n_samples;
  std::vector<Range> shards;   ///< Rows of the batch. Empty ones come last.
  std::vector<Range> devices;  ///< Shards of each device, without the empty ones.

  int64_t number_in_device(int device, int64_t shard) const {
    return shard - devices[static_cast<size_t>(device)].begin;
  }
  double share(int64_t shard) const;  ///< Of all samples.
};

}  // namespace heddle
