#pragma once

// The checks of every access a kernel makes (findings.h), and where the hooks enter them.

#include <atomic>
#include <cstdint>
#include <memory>

#include "cudasim/findings.h"
#include "kernel_accesses.h"
#include "lane.h"
#include "profile_block.h"
#include "races.h"
#include "shadow.h"

namespace cudasim {

/// Whether any launch is checked or profiled: the one thing that a hook asks while none is.
extern constinit std::atomic<bool> accesses_observed;
void update_observed();

/// What a host thread that runs blocks knows of the block at hand.
struct BlockChecks {
  bool memory = false;
  bool races = false;
  bool profile = false;
  uint64_t launch_number = 0;
  BlockOrdering order;
  std::unique_ptr<ShadowMap> shared;
  size_t shared_used = 0;  ///< so much of it to clear

  // Which allocation lies on a page; forgotten at each launch.
  struct Page {
    uintptr_t number = ~uintptr_t{0};
    ShadowMap* map = nullptr;
    UsedWords* used = nullptr;  // for the happens-before check; null: nobody asks
  };
  KernelAccesses* accesses = nullptr;  ///< the launch's
  static constexpr size_t kPages = 256;
  Page pages[kPages];

  BlockProfile counts;
};

/// This host thread's; while it runs a block, also the block's observer_data.
BlockChecks& block_checks();

/// An access of `lane`'s kernel that is not of its own stack. Ends the launch where the access
/// cannot be performed.
void check_access(Lane& lane, uintptr_t address, size_t bytes, Access kind,
                  uintptr_t return_address, size_t alignment);

/// `alignment` is what a device asks of the address.
inline void observe_access(Lane& lane, const volatile void* at, size_t bytes, Access kind,
                           const void* return_address, size_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto low = reinterpret_cast<uintptr_t>(lane.stack_low);
  if (address - low < static_cast<size_t>(lane.stack_high - lane.stack_low)) return;
  check_access(lane, address, bytes, kind, reinterpret_cast<uintptr_t>(return_address), alignment);
}

/// What a hook does.
inline void hooked_access(const volatile void* at, size_t bytes, Access kind,
                          const void* return_address, size_t alignment) {
  if (!accesses_observed.load(std::memory_order_relaxed)) return;
  Lane* lane = current_lane;
  if (lane != nullptr) observe_access(*lane, at, bytes, kind, return_address, alignment);
}

/// The shadow of the allocation, made where there is none.
ShadowMap& shadow_of(const struct Allocation& allocation);

}  // namespace cudasim
