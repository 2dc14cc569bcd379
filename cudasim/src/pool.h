#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "memory.h"
#include "runtime.h"

struct CUmemPoolHandle_st {
  int device = 0;
  bool is_default = false;
  bool destroyed = false;
  uint64_t release_threshold = 0;
  size_t max_bytes = 0;  ///< 0: the device's limit
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
  uint64_t reuse[4] = {0, 1, 1, 1};  ///< by cudaMemPoolReuse...; kept, not acted on
  std::array<std::atomic<bool>, cudasim::kMaxDevices> access{};  ///< by device
};

namespace cudasim {

/// A pool whose own device has access.
CUmemPoolHandle_st* make_pool(Runtime& state, int device, bool is_default);

/// Counts `bytes` as used, reserving more from the device where needed; false: it has not that
/// much.
bool take_from_pool(CUmemPoolHandle_st& pool, size_t bytes);
void give_to_pool(CUmemPoolHandle_st& pool, size_t bytes);

/// What each synchronisation does: unused memory above the release threshold goes back.
void trim_pools();

}  // namespace cudasim
