#include "report.h"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "findings_list.h"
#include "memory.h"
#include "symbols.h"

namespace cudasim {

namespace {

struct Stacks {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::vector<uintptr_t>> by_id;
};

Stacks& stacks() {
  static auto* all = new Stacks;
  return *all;
}

const char* kind_of_access(Access kind) {
  switch (kind) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kAtomic:
      return "atomic";
    case Access::kAsyncWrite:
      return "asynchronous write";
  }
  return "access";
}

std::array<uint32_t, 3> three(const uint3& v) { return {v.x, v.y, v.z}; }

std::array<uint32_t, 3> place_in(uint64_t linear, const dim3& size) {
  return {static_cast<uint32_t>(linear % size.x), static_cast<uint32_t>(linear / size.x % size.y),
          static_cast<uint32_t>(linear / size.x / size.y)};
}

void set_source(FindingAccess& access, uintptr_t return_address) {
  const std::vector<SourceFrame> frames = frames_at(return_address);
  const SourceFrame frame = shown_frame(frames);
  for (const SourceFrame& each : frames) {
    access.frames.push_back(each.file + ":" + std::to_string(each.line));
  }
  access.return_address = return_address;
  access.file = frame.file;
  access.line = frame.line;
}

// "8 bytes past the end of", "at byte 12 of".
std::string place_text(uintptr_t address, uintptr_t base, size_t bytes) {
  if (address >= base + bytes) {
    const size_t past = address - (base + bytes);
    return past == 0 ? "just past the end of " : std::to_string(past) + " bytes past the end of ";
  }
  if (address < base) return std::to_string(base - address) + " bytes before ";
  return "at byte " + std::to_string(address - base) + " of ";
}

std::string shared_text(const Block& block, uintptr_t address) {
  const SharedVariable* nearest = nullptr;
  size_t least = SIZE_MAX;
  for (const SharedVariable& variable : block.variables) {
    const auto base = reinterpret_cast<uintptr_t>(variable.address);
    const size_t distance = address < base                    ? base - address
                            : address < base + variable.bytes ? 0
                                                              : address - base - variable.bytes + 1;
    if (variable.bytes > 0 && distance < least) {
      least = distance;
      nearest = &variable;
    }
  }
  if (nearest == nullptr) return "in shared memory, of which the block has none";
  const SharedSite* site = nearest->site;
  return place_text(address, reinterpret_cast<uintptr_t>(nearest->address), nearest->bytes) +
         (site == nullptr ? "the dynamic shared memory"
                          : "shared variable " + std::string(site->name)) +
         " (" + std::to_string(nearest->bytes) + " bytes)";
}

std::string global_text(uintptr_t address) {
  const auto* pointer = reinterpret_cast<const void*>(address);
  const Allocation* allocation = find_allocation(pointer);
  if (allocation == nullptr) allocation = previous_allocation(pointer);
  if (allocation == nullptr) return "no allocation is near";
  std::string text =
      place_text(address, reinterpret_cast<uintptr_t>(allocation->base), allocation->bytes) +
      (allocation->freed ? "freed " : "") + describe(*allocation);
  const std::vector<uintptr_t> stack = allocation_stack(allocation->id);
  if (stack.empty()) return text;
  const SourceFrame frame = asked_from(stack);
  return text + ", allocated at " + place_text(frame, stack.front());
}

std::string memory_text(const Touch& touch) {
  const Block& block = *touch.lane->block;
  const auto low = reinterpret_cast<uintptr_t>(block.shared_low);
  if (touch.address - low < static_cast<size_t>(block.shared_high - block.shared_low)) {
    return shared_text(block, touch.address);
  }
  if (touch.address < 4096) return "a null pointer";
  if (device_of_address(reinterpret_cast<const void*>(touch.address)) == kForeignAddress) {
    return "memory of the host that no device can reach";
  }
  return global_text(touch.address);
}

FindingAccess access_of(const Lane& lane, std::string what, uintptr_t return_address) {
  FindingAccess access;
  access.what = std::move(what);
  access.block = three(lane.block->index);
  access.thread = three(lane.thread);
  set_source(access, return_address);
  return access;
}

}  // namespace

void note_allocation(uint64_t id, std::vector<uintptr_t> stack) {
  const std::lock_guard lock(stacks().mutex);
  stacks().by_id[id] = std::move(stack);
}

std::vector<uintptr_t> allocation_stack(uint64_t id) {
  const std::lock_guard lock(stacks().mutex);
  const auto found = stacks().by_id.find(id);
  return found == stacks().by_id.end() ? std::vector<uintptr_t>{} : found->second;
}

void report_touch(FindingKind kind, const Touch& touch, const EarlierAccess* earlier) {
  const Launch& launch = *touch.lane->block->launch;
  const FindingKey key{kind, launch.function, touch.return_address,
                       earlier == nullptr ? 0 : earlier->return_address};
  if (!FindingsList::get().is_new(key)) return;
  Finding finding;
  finding.kind = kind;
  finding.kernel = kernel_name(launch.function);
  finding.device = launch.device;
  finding.address = touch.address;
  finding.access = access_of(
      *touch.lane, kind_of_access(touch.kind) + (" of " + std::to_string(touch.bytes)) + " bytes",
      touch.return_address);
  finding.memory = memory_text(touch);
  if (earlier != nullptr) {
    FindingAccess& other = finding.other.emplace();
    other.what = earlier->what;
    other.block = place_in(earlier->block, launch.grid);
    other.thread = place_in(earlier->thread, launch.block);
    set_source(other, earlier->return_address);
  }
  FindingsList::get().add(key, std::move(finding));
}

void report_barrier(const Lane& waiting, const Lane& other, const std::string& note) {
  const Launch& launch = *waiting.block->launch;
  const auto at = reinterpret_cast<uintptr_t>(waiting.wait_pc);
  const auto elsewhere = other.exited ? 0 : reinterpret_cast<uintptr_t>(other.wait_pc);
  const FindingKey key{FindingKind::kDivergentBarrier, launch.function, at, elsewhere};
  if (!FindingsList::get().is_new(key)) return;
  Finding finding;
  finding.kind = FindingKind::kDivergentBarrier;
  finding.kernel = kernel_name(launch.function);
  finding.device = launch.device;
  finding.access = access_of(waiting, "barrier", at);
  finding.other = access_of(other, note, elsewhere);
  FindingsList::get().add(key, std::move(finding));
}

void report_mixed_barrier(const Block& block) {
  const Lane* first = nullptr;
  for (int i = 0; i < block.n_threads; ++i) {
    const Lane& lane = block.lanes[i];
    if (lane.exited) continue;
    if (first == nullptr) first = &lane;
    if (lane.wait_pc == first->wait_pc) continue;
    const SourceFrame here = source_at(reinterpret_cast<uintptr_t>(first->wait_pc));
    const SourceFrame there = source_at(reinterpret_cast<uintptr_t>(lane.wait_pc));
    if (here.line == there.line && here.file == there.file) continue;  // one call, compiled twice
    report_barrier(*first, lane, "another barrier");
    return;
  }
}

void add_finding(Finding finding) {
  const FindingKey key{finding.kind, nullptr, finding.access.return_address,
                       finding.other ? finding.other->return_address : 0};
  FindingsList::get().add(key, std::move(finding));
}

void begin_findings_of_launch() { FindingsList::get().begin_launch(); }
void end_findings_of_launch(const Launch& launch) {
  const int64_t left_out = FindingsList::get().end_launch();
  if (left_out == 0) return;
  std::fprintf(stderr, "cudasim: %" PRId64 " more findings in %s are not shown\n", left_out,
               kernel_name(launch.function).c_str());
}

}  // namespace cudasim
