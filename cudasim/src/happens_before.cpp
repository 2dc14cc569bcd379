#include "happens_before.h"

#include <algorithm>
#include <mutex>

#include "cudasim/runtime_api.h"
#include "order_findings.h"

namespace cudasim {
namespace {

/// One use of a range, by whom and when.
struct Record {
  size_t first, last;
  Use use;
  int timeline;
  uint64_t tick;
  std::shared_ptr<const Operation> operation;  ///< null: the host
  const char* host_call;

  bool writes() const { return use != Use::kRead; }
};

struct History {
  std::vector<Record> records;
};

// More than these of one buffer, and the oldest are forgotten.
constexpr size_t kMaxRecords = 4096;

std::mutex& history_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

/// The timeline of a stream that was destroyed.
struct Retired {
  int timeline;
  uint64_t ticks;
};

struct Host {
  Clock clock;
  uint64_t ticks = 0;
  int n_timelines = kHostTimeline + 1;
  std::vector<Retired> retired;
  std::vector<History*> histories;
};

Host& host() {
  static Host& state = *new Host;
  return state;
}

History& history_of(const Allocation& allocation) {
  void* history = allocation.history.load(std::memory_order_acquire);
  if (history == nullptr) {
    history = host().histories.emplace_back(new History);
    allocation.history.store(history, std::memory_order_release);
  }
  return *static_cast<History*>(history);
}

std::string describe(const Record& record) {
  if (record.operation != nullptr) return cudasim::describe(*record.operation);
  return std::string("the host (") + record.host_call + ")";
}

OrderFault fault_of(const Record& earlier, const Record& later, bool ordered) {
  if (earlier.use == Use::kFree) {
    return ordered ? OrderFault::kUseAfterFree : OrderFault::kFreedInUse;
  }
  if (later.use == Use::kFree) return OrderFault::kFreedInUse;
  if (earlier.use == Use::kAllocate) return OrderFault::kUseBeforeAlloc;
  return OrderFault::kMissingWait;
}

void report(const Allocation& allocation, const Record& earlier, const Record& later,
            bool ordered) {
  OrderFinding finding;
  finding.fault = fault_of(earlier, later, ordered);
  finding.first = describe(earlier);
  finding.second = describe(later);
  finding.buffer = "bytes " + std::to_string(std::max(earlier.first, later.first)) + " to " +
                   std::to_string(std::min(earlier.last, later.last)) + " of " +
                   cudasim::describe(allocation);
  add_order_finding(std::move(finding));
}

/// Compares with what is known of the buffer and adds it. What is ordered before `record` and adds
/// nothing to it is forgotten: whoever conflicts with that conflicts with this.
void add(const Allocation& allocation, const Clock& clock, Record record) {
  std::vector<Record>& records = history_of(allocation).records;
  const Record* worst = nullptr;
  bool worst_ordered = false;
  for (const Record& earlier : records) {
    const bool overlap = earlier.first < record.last && record.first < earlier.last;
    if (!overlap || (!earlier.writes() && !record.writes())) continue;
    if (earlier.use == Use::kAllocate && record.use == Use::kFree) continue;  // touches nothing
    const bool ordered = clock.at(earlier.timeline) >= earlier.tick;
    if (ordered && earlier.use != Use::kFree) continue;
    if (worst == nullptr || earlier.use == Use::kFree) {
      worst = &earlier;
      worst_ordered = ordered;
    }
  }
  if (worst != nullptr) report(allocation, *worst, record, worst_ordered);
  std::erase_if(records, [&](const Record& earlier) {
    return earlier.first >= record.first && earlier.last <= record.last &&
           earlier.use != Use::kFree && (record.writes() || !earlier.writes()) &&
           clock.at(earlier.timeline) >= earlier.tick;
  });
  if (records.size() >= kMaxRecords) records.erase(records.begin());
  records.push_back(std::move(record));
}

}  // namespace

int new_timeline(uint64_t& ticks) {
  const std::lock_guard lock(history_mutex());
  std::vector<Retired>& retired = host().retired;
  for (Retired& old : retired) {
    if (host().clock.at(old.timeline) < old.ticks) continue;
    const Retired taken = old;
    old = retired.back();
    retired.pop_back();
    ticks = taken.ticks;
    return taken.timeline;
  }
  ticks = 0;
  return host().n_timelines++;
}

void retire_timeline(int timeline, uint64_t ticks) {
  const std::lock_guard lock(history_mutex());
  host().retired.push_back({timeline, ticks});
}

Clock host_clock() {
  const std::lock_guard lock(history_mutex());
  return host().clock;
}

void host_waited_for(const Clock& clock) {
  const std::lock_guard lock(history_mutex());
  host().clock.join(clock);
}

void note_use(const Operation& operation, const Allocation& allocation, size_t first, size_t last,
              Use use) {
  if (!order_checks() || first >= last) return;
  const std::lock_guard lock(history_mutex());
  add(allocation, operation.clock,
      {.first = first,
       .last = last,
       .use = use,
       .timeline = operation.timeline,
       .tick = operation.tick,
       .operation = operation.shared_from_this(),
       .host_call = nullptr});
}

void note_host_use(const Allocation& allocation, size_t first, size_t last, Use use,
                   const char* what) {
  if (current_operation != nullptr) {
    note_use(*current_operation, allocation, first, last, use);
    return;
  }
  if (!order_checks() || first >= last) return;
  const std::lock_guard lock(history_mutex());
  const uint64_t tick = ++host().ticks;
  host().clock.set(kHostTimeline, tick);
  add(allocation, host().clock,
      {.first = first,
       .last = last,
       .use = use,
       .timeline = kHostTimeline,
       .tick = tick,
       .operation = nullptr,
       .host_call = what});
}

void note_range(const void* address, size_t bytes, Use use) {
  const Allocation* allocation = find_allocation(address);
  if (allocation == nullptr || current_operation == nullptr) return;
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(address) - allocation->base);
  note_use(*current_operation, *allocation, first, first + bytes, use);
}

void host_access(const void* pointer, size_t bytes, bool write) {
  const Allocation* allocation = find_allocation(pointer);
  if (allocation == nullptr) return;
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(pointer) - allocation->base);
  note_host_use(*allocation, first, first + bytes, write ? Use::kWrite : Use::kRead,
                write ? "write" : "read");
}

}  // namespace cudasim
