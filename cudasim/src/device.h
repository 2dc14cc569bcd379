#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "cudasim/runtime_types.h"
#include "memory.h"
#include "operation.h"

namespace cudasim {

/// The figures of one kind of card.
struct Card {
  const char* name;
  const char* full_name;
  int major, minor;
  int n_multiprocessors;
  size_t memory_bytes;
  size_t shared_bytes_opt_in;  ///< per block; 48 KiB without opting in
  size_t shared_bytes_per_multiprocessor;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int l2_bytes;
  int memory_bus_bits;
  int memory_clock_khz;
  int clock_khz;
};

constexpr size_t kSharedBytesDefault = size_t{48} << 10;
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxBlockDim[3] = {1024, 1024, 64};
constexpr int kMaxGridDim[3] = {2147483647, 65535, 65535};
constexpr int kRegistersPerBlock = 65536;
constexpr int kWarpSize = 32;

/// Null where there is no card of that name.
const Card* find_card(const std::string& name);

/// One virtual device.
struct Device {
  const Card* card = nullptr;
  size_t memory_limit = 0;
  size_t malloc_bytes = 0;  ///< by cudaMalloc
  std::array<std::atomic<bool>, kMaxDevices> peer_possible{};
  std::array<std::atomic<bool>, kMaxDevices>
      peer_enabled{};  ///< this device may use that one's memory
  std::atomic<cudaError_t> sticky{cudaSuccess};
  std::atomic<int64_t> kernels_to_fault{0};  ///< 0: none
  cudaError_t fault = cudaSuccess;           ///< what then happens
  cudaStream_t legacy_stream = nullptr;
  std::vector<cudaStream_t> streams;  ///< created and not destroyed
  std::vector<OperationPtr> orphans;  ///< last operations of streams that were destroyed
  std::vector<cudaMemPool_t> pools;
  cudaMemPool_t default_pool = nullptr;
  cudaMemPool_t current_pool = nullptr;

  size_t used_bytes() const;  ///< by cudaMalloc, and held by pools
};

/// The host thread's current device.
extern constinit thread_local int current_device;

}  // namespace cudasim
