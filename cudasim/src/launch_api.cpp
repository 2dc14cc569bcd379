#include <algorithm>

#include "cudasim/execution.h"
#include "cudasim/order.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "kernel_accesses.h"
#include "launch.h"
#include "stream.h"

namespace cudasim {
namespace {

FunctionSettings& settings_of(const void* function) {
  return runtime().functions[static_cast<size_t>(current_device)][function];
}

cudaError_t check_configuration(const cudaLaunchConfig_t& config, const Card& card) {
  const unsigned int grid[3] = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
  const unsigned int block[3] = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  uint64_t n_threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || grid[i] > static_cast<unsigned int>(kMaxGridDim[i]) || block[i] == 0 ||
        block[i] > static_cast<unsigned int>(kMaxBlockDim[i])) {
      return cudaErrorInvalidConfiguration;
    }
    n_threads *= block[i];
  }
  if (n_threads > kMaxThreadsPerBlock) return cudaErrorInvalidConfiguration;
  return config.dynamicSmemBytes > card.shared_bytes_opt_in ? cudaErrorInvalidValue : cudaSuccess;
}

/// Runs the kernel, or skips it on a device that has failed.
void run_launch(const Launch& launch, bool note_accesses) {
  Device& device = runtime().devices[static_cast<size_t>(launch.device)];
  if (device.sticky != cudaSuccess) return;
  if (device.kernels_to_fault > 0 && --device.kernels_to_fault == 0) {
    device.sticky = device.fault;
    return;
  }
  KernelAccesses accesses;
  Launch running = launch;
  if (note_accesses && order_checks()) running.accesses = &accesses;
  if (execute(running).failed) device.sticky = cudaErrorLaunchFailure;
  accesses.report(*current_operation);
}

/// In a single stream everything is ordered: what kernels touch need not be noted.
bool several_streams(const Runtime& state) {
  return state.n_streams_made + (state.current().legacy_stream->ticks > 0 ? 1 : 0) > 1;
}

cudaError_t submit_launch(Lock& lock, const cudaLaunchConfig_t& config, const void* function,
                          KernelCall call) {
  Runtime& state = runtime();
  CUstream_st* stream = find_stream(state, config.stream);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (stream == nullptr || stream->device != current_device) return cudaErrorInvalidResourceHandle;
  if (config.numAttrs != 0) return cudaErrorNotSupported;
  const Card& card = *state.current().card;
  if (const cudaError_t error = check_configuration(config, card)) return error;
  const FunctionSettings& settings = settings_of(function);
  if (config.dynamicSmemBytes > static_cast<size_t>(settings.max_dynamic_shared_bytes)) {
    return cudaErrorInvalidValue;
  }
  Launch launch;
  launch.function = function;
  launch.device = current_device;
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.shared_bytes = config.dynamicSmemBytes;
  launch.shared_limit =
      std::max(kSharedBytesDefault, static_cast<size_t>(settings.max_dynamic_shared_bytes));
  launch.kernel = std::move(call);
  launch.range = current_block_range();
  launch.id = ++state.n_launches;
  return submit_work(lock, *stream,
                     {.kind = "kernel",
                      .function = function,
                      .run = [launch = std::move(launch), note = several_streams(state)] {
                        run_launch(launch, note);
                      }});
}

}  // namespace

cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const void* function, KernelCall call) {
  return api([&](Lock& lock) { return submit_launch(lock, config, function, std::move(call)); });
}

}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return cudasim::api([&](Lock&) {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    cudasim::FunctionSettings& settings = cudasim::settings_of(function);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      settings.carveout = value;
      return cudaSuccess;
    }
    const auto limit = static_cast<int>(runtime().current().card->shared_bytes_opt_in);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > limit) {
      return cudaErrorInvalidValue;
    }
    settings.max_dynamic_shared_bytes = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return cudasim::api([&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudasim::FunctionSettings& settings = cudasim::settings_of(function);
    const cudasim::Card& card = *runtime().current().card;
    *attributes = {};
    attributes->maxThreadsPerBlock = cudasim::kMaxThreadsPerBlock;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = card.major * 10 + card.minor;
    attributes->maxDynamicSharedSizeBytes = settings.max_dynamic_shared_bytes;
    attributes->preferredShmemCarveout = settings.carveout;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n_blocks, const void* function,
                                                          int block_size, size_t shared_bytes) {
  return cudasim::api([&](Lock&) {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (n_blocks == nullptr || block_size <= 0) return cudaErrorInvalidValue;
    const cudasim::Card& card = *runtime().current().card;
    *n_blocks = 0;
    if (block_size > cudasim::kMaxThreadsPerBlock || shared_bytes > card.shared_bytes_opt_in) {
      return cudaSuccess;
    }
    const int rounded =
        (block_size + cudasim::kWarpSize - 1) / cudasim::kWarpSize * cudasim::kWarpSize;
    *n_blocks = std::min(card.threads_per_multiprocessor / rounded, card.blocks_per_multiprocessor);
    if (shared_bytes > 0) {
      const size_t fit = card.shared_bytes_per_multiprocessor / (shared_bytes + 1024);
      *n_blocks = std::min(*n_blocks, std::max(1, static_cast<int>(fit)));
    }
    return cudaSuccess;
  });
}
