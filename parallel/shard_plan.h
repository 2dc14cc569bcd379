#pragma once

#include "heddle/core/split.h"

namespace heddle {

/// How a batch of n samples is computed: cut into shards, whoever computes them, and the shards
/// dealt out to devices in runs.
struct ShardPlan {
  ShardPlan(int64_t n_samples, int64_t n_shards, int64_t n_devices);

  int64_t n_samples;
  std::vector<Range> shards;   ///< Rows of the batch. Empty ones come last.
  std::vector<Range> devices;  ///< Shards of each device, without the empty ones.

  double share(int64_t shard) const;  ///< Of all samples.
};

}  // namespace heddle
