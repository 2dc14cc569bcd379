#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cudasim/runtime_types.h"

// What a test or a program sets about the virtual machine. None of it exists in CUDA.
namespace cudasim {

/// When queued operations run. What a correct program computes does not depend on it.
enum class Schedule {
  kEager,   ///< as soon as it may
  kLatest,  ///< when a synchronisation, a second query or a copy to pageable memory forces it; then
            ///< the newest first
  kRandom,  ///< in an order drawn from a seed
};

/// The machine from which reset() builds devices; at first from the environment: CUDASIM_DEVICES (1
/// to 16, default 1), CUDASIM_CARD (a name from cards(), default A100), CUDASIM_SCHEDULE (eager,
/// latest, random or random:SEED).
struct Machine {
  int n_devices = 1;
  std::string card = "A100";
  bool peer_access = true;  ///< of all pairs; set_peer_access changes one
  Schedule schedule = Schedule::kEager;
  uint64_t seed = 1;
};

/// The names of the cards that there are.
std::vector<std::string> cards();

/// Ends all work, frees all memory, forgets errors, and begins anew with this machine. Handles and
/// pointers from before are dead. Call it while no other thread uses the runtime.
void reset(const Machine& machine);
Machine machine();

/// Changes the schedule from here on.
void set_schedule(Schedule schedule, uint64_t seed = 1);
/// Gives one device another card.
void set_card(int device, const std::string& card);
/// Whether the pair may be opened to each other by cudaDeviceEnablePeerAccess.
void set_peer_access(int device, int peer, bool possible);
/// What cudaMalloc and pools may take of a device in all.
void set_memory_limit(int device, size_t bytes);

/// A fault of a kernel: every later call on the device returns it (until reset).
void set_sticky_error(int device, cudaError_t error);
/// The same fault in place of the `kernels`-th kernel (from 1) that runs on the device from now on.
/// As CUDASIM_FAULT=DEVICE:KERNELS:ERROR in the environment (0:500:cudaErrorIllegalAddress) when
/// devices are built, where CUDASIM_MEMORY=BYTES is the memory limit of each.
void fail_at_kernel(int device, int64_t kernels, cudaError_t error);

/// Operations of all streams that have not run yet.
size_t pending_operations();

}  // namespace cudasim
