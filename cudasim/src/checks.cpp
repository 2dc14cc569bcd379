#include "checks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "memory.h"
#include "observer.h"
#include "profile.h"
#include "report.h"
#include "symbols.h"

namespace cudasim {

constinit std::atomic<bool> accesses_observed{true};

namespace {

constexpr int kStackDepth = 12;

Checks level_of_environment() {
  const char* text = std::getenv("CUDASIM_CHECKS");
  const std::string level = text == nullptr ? "all" : text;
  if (level == "off") return Checks::kOff;
  if (level == "memory") return Checks::kMemory;
  return Checks::kAll;
}

std::atomic<Checks>& wanted_level() {
  static std::atomic<Checks> level{level_of_environment()};
  return level;
}

/// What is known of a launch while it runs.
struct RunningLaunch {
  uint64_t number = 0;
  Checks level = Checks::kOff;
  bool profile = false;
  uint32_t first_interval = 0;
  LaunchCounts counts;
};

struct State {
  std::mutex mutex;
  std::map<const Launch*, RunningLaunch> running;
  uint64_t n_launches = 0;
  std::vector<BlockChecks*> threads;
  std::vector<std::unique_ptr<ShadowMap>> freed;  // until no launch runs that may know them
  std::atomic<uint64_t> untracked_launches{0};
};

State& state() {
  static auto* all = new State;
  return *all;
}

/// Counts of a host thread go to the launch they belong to. The state is locked.
void collect_counts(BlockChecks& checks) {
  for (auto& [launch, running] : state().running) {
    if (running.number == checks.launch_number) running.counts.add(checks.counts.take());
  }
}

void enter_launch(BlockChecks& checks, const Launch& launch) {
  const std::lock_guard lock(state().mutex);
  const RunningLaunch& running = state().running.at(&launch);
  if (running.number == checks.launch_number) return;
  collect_counts(checks);
  checks.launch_number = running.number;
  checks.memory = running.level >= Checks::kMemory;
  checks.races = running.level >= Checks::kRaces;
  checks.profile = running.profile;
  checks.accesses = launch.accesses;
  checks.order.begin_launch(running.first_interval);
  std::fill(std::begin(checks.pages), std::end(checks.pages), BlockChecks::Page{});
}

class Memory final : public MemoryObserver {
 public:
  void on_allocate(const Allocation& allocation) override {
    if (checks() == Checks::kOff) return;
    note_allocation(allocation.id, call_stack(kStackDepth));
    make(allocation, allocation.kind == MemoryKind::kPinned);
  }

  void on_free(const Allocation& allocation) override {
    const std::lock_guard lock(state().mutex);
    auto* map = static_cast<ShadowMap*>(allocation.shadow.exchange(nullptr));
    if (map != nullptr) state().freed.emplace_back(map);
    if (state().running.empty()) state().freed.clear();
  }

  void on_host_write(const void* address, size_t bytes) override {
    if (ShadowMap* map = known(address)) {
      map->mark_written(reinterpret_cast<uintptr_t>(address), bytes);
    }
  }
  void on_host_read(const void*, size_t) override {}

  void on_copy(const void* destination, const void* source, size_t bytes) override {
    ShadowMap* to = known(destination);
    if (to == nullptr) return;
    ShadowMap* from = known(source);
    const auto at = reinterpret_cast<uintptr_t>(destination);
    if (from == nullptr) {
      to->mark_written(at, bytes);
    } else {
      to->copy_written(at, *from, reinterpret_cast<uintptr_t>(source), bytes);
    }
  }

  static ShadowMap& make(const Allocation& allocation, bool written) {
    const std::lock_guard lock(state().mutex);
    if (void* map = allocation.shadow.load()) return *static_cast<ShadowMap*>(map);
    const auto base = reinterpret_cast<uintptr_t>(allocation.base);
    auto* map = new ShadowMap(base, allocation.bytes);
    map->set(base, allocation.bytes, true, written);
    map->untracked_launches = state().untracked_launches.load();
    allocation.shadow.store(map);
    return *map;
  }

 private:
  static ShadowMap* known(const void* address) {
    const Allocation* allocation = find_allocation(address);
    return allocation == nullptr ? nullptr : static_cast<ShadowMap*>(allocation->shadow.load());
  }
};

[[maybe_unused]] const bool observing = [] {
  static auto* memory = new Memory;
  set_memory_observer(memory);
  update_observed();
  return true;
}();

}  // namespace

void update_observed() {
  accesses_observed = wanted_level().load() != Checks::kOff || profile_wanted();
}

Checks checks() { return wanted_level().load(std::memory_order_relaxed); }

void set_checks(Checks level) {
  wanted_level() = level;
  update_observed();
}

BlockChecks& block_checks() {
  static thread_local BlockChecks* mine = [] {
    auto* made = new BlockChecks;  // kept: launches read it after their threads have gone
    const std::lock_guard lock(state().mutex);
    state().threads.push_back(made);
    return made;
  }();
  return *mine;
}

ShadowMap& shadow_of(const Allocation& allocation) {
  auto* map = static_cast<ShadowMap*>(allocation.shadow.load(std::memory_order_acquire));
  if (map == nullptr) return Memory::make(allocation, true);  // from before the checks
  const uint64_t untracked = state().untracked_launches.load();
  if (map->untracked_launches.exchange(untracked) != untracked) {
    map->mark_written(map->base(), map->bytes());
  }
  return *map;
}

namespace observer {

void on_launch_begin(const Launch& launch) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (all.running.empty()) {
    all.freed.clear();
    forget_releases();
  }
  RunningLaunch& running = all.running[&launch];
  running.number = ++all.n_launches;
  running.level = checks();
  running.profile = profile_wanted();
  running.first_interval = IntervalOwners::get().next();
  if (running.level == Checks::kOff) ++all.untracked_launches;
  begin_findings_of_launch();
}

void on_launch_end(const Launch& launch, const LaunchResult&) {
  LaunchCounts counts;
  bool profiled = false;
  {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    for (BlockChecks* thread : all.threads) {
      if (thread->launch_number == all.running[&launch].number) collect_counts(*thread);
    }
    profiled = all.running[&launch].profile;
    counts = std::move(all.running[&launch].counts);
    all.running.erase(&launch);
  }
  if (profiled) add_to_profiles(launch, std::move(counts));
  end_findings_of_launch(launch);
}

void on_block_begin(Block& block) {
  BlockChecks& mine = block_checks();
  enter_launch(mine, *block.launch);
  block.observer_data = &mine;
  if (mine.memory) {
    const auto low = reinterpret_cast<uintptr_t>(block.shared_low);
    const auto size = static_cast<size_t>(block.shared_high - block.shared_low);
    if (mine.shared == nullptr || mine.shared->base() != low || mine.shared->bytes() != size) {
      mine.shared = std::make_unique<ShadowMap>(low, size);
    }
    mine.shared->clear_state(mine.shared_used);
    mine.shared_used = 0;
    mine.order.begin_block(static_cast<uint32_t>(block.linear));
  }
  if (mine.profile) mine.counts.begin_block(block);
}

void on_block_end(Block&) {
  BlockChecks& mine = block_checks();
  if (mine.profile) mine.counts.end_block();
}

void on_shared_declared(Block&, const SharedVariable& variable) {
  BlockChecks& mine = block_checks();
  if (!mine.memory || variable.bytes == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(variable.address);
  mine.shared->set(address, variable.bytes, true, false);
  mine.shared_used = std::max(mine.shared_used, address + variable.bytes - mine.shared->base());
}

void on_block_barrier(Block& block) {
  BlockChecks& mine = block_checks();
  if (mine.memory) mine.order.barrier();
  if (mine.profile) mine.counts.barrier();
  if (!mine.memory || !block.barrier_mixed) return;
  report_mixed_barrier(block);
}

void on_warp_sync(Block& block, int warp, unsigned mask) {
  BlockChecks& mine = block_checks();
  const Warp& lanes = block.warps[warp];
  if (mine.memory) mine.order.warp_sync(warp, mask, lanes.exists & ~lanes.exited);
  if (mine.profile) mine.counts.warp_sync();
}

void on_fence(Block&) {
  BlockChecks& mine = block_checks();
  if (mine.memory) mine.order.fence();
}

void on_access(Lane& lane, const void* address, size_t bytes, Access kind, const void* pc) {
  const bool power_of_two = (bytes & (bytes - 1)) == 0 && bytes <= 16;
  if (!accesses_observed.load(std::memory_order_relaxed)) return;
  observe_access(lane, address, bytes, kind, pc, power_of_two ? bytes : 1);
}

void on_divergent_barrier(Block& block, bool) {
  if (!block_checks().memory) return;
  const Lane* waiting = nullptr;
  const Lane* other = nullptr;
  for (int i = 0; i < block.n_threads; ++i) {
    const Lane& lane = block.lanes[i];
    if (lane.wait == Wait::kBlockBarrier) {
      if (waiting == nullptr) waiting = &lane;
    } else if (other == nullptr) {
      other = &lane;
    }
  }
  if (waiting == nullptr || other == nullptr) return;
  report_barrier(*waiting, *other, other->exited ? "the end" : "a wait in a warp collective");
}

}  // namespace observer

}  // namespace cudasim
