// One access against the shadow: bounds, lifetime, device, alignment, memory never written, races.
#include <link.h>

#include <algorithm>
#include <vector>

#include "checks.h"
#include "memory.h"
#include "report.h"

namespace cudasim {

namespace {

[[noreturn, gnu::cold]] void end_with(FindingKind kind, const Touch& touch) {
  report_touch(kind, touch);
  end_launch((std::string(finding_kind_name(kind)) + ": the access cannot be performed").c_str(),
             true);
}

struct Segment {
  uintptr_t begin, end;
};

// What the loaded files hold read-only: constants of kernels lie there.
const std::vector<Segment>& constant_segments() {
  static const auto* segments = [] {
    auto* found = new std::vector<Segment>;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* result) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& segment = info->dlpi_phdr[i];
            const bool constant = (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0) ||
                                  segment.p_type == PT_GNU_RELRO;
            const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
            if (constant) {
              static_cast<std::vector<Segment>*>(result)->push_back(
                  {begin, begin + segment.p_memsz});
            }
          }
          return 0;
        },
        found);
    return found;
  }();
  return *segments;
}

bool is_constant(const Touch& touch) {
  return touch.kind == Access::kRead &&
         std::any_of(constant_segments().begin(), constant_segments().end(), [&](const Segment& s) {
           return touch.address >= s.begin && touch.address + touch.bytes <= s.end;
         });
}

// What warp_exchange gave the lane to read.
inline bool is_exchange_row(const Lane& lane, uintptr_t address, Access kind) {
  const Exchange* exchange = lane.exchange;
  return exchange != nullptr && kind == Access::kRead &&
         address - reinterpret_cast<uintptr_t>(exchange->rows.data()) < exchange->rows.size();
}

/// The shadow of the allocation on whose page the address lies, or a finding that ends the launch;
/// null for constants of the program and what the engine lends.
[[gnu::noinline]] ShadowMap* find_map(BlockChecks& checks, Touch touch) {
  const auto* pointer = reinterpret_cast<const void*>(touch.address);
  const int device = touch.lane->block->launch->device;
  const Allocation* allocation = find_allocation(pointer);
  if (allocation == nullptr) {
    if (is_constant(touch)) return nullptr;
    const bool simulated = device_of_address(pointer) != kForeignAddress || touch.address < 4096;
    end_with(simulated ? FindingKind::kOutOfBounds : FindingKind::kHostPointer, touch);
  }
  if (allocation->freed) end_with(FindingKind::kUseAfterFree, touch);
  if (!may_access(device, *allocation)) end_with(FindingKind::kForeignDevice, touch);
  ShadowMap& map = shadow_of(*allocation);
  const uintptr_t page = touch.address / kPageBytes;
  UsedWords* used = checks.accesses == nullptr ? nullptr : &checks.accesses->of(*allocation);
  checks.pages[page % BlockChecks::kPages] = {page, &map, used};
  return &map;
}

template <bool kShared>
PackedAccess note(const BlockOrdering& order, AccessCells& cells, PackedAccess me, Access kind) {
  switch (kind) {
    case Access::kRead:
      return order.read<kShared>(cells, me);
    case Access::kAtomic:
      return order.atomic_access<kShared>(cells, me);
    default:
      return order.write<kShared>(cells, me);
  }
}

/// A word that is also accessed in parts has cells for each of its bytes beside its own.
template <bool kShared>
PackedAccess note_with_bytes(const BlockOrdering& order, ShadowMap& map, uintptr_t address,
                             size_t bytes, PackedAccess me, Access kind) {
  AccessCells& cells = map.cells(map.word_of(address));
  const bool writes = kind == Access::kWrite || kind == Access::kAsyncWrite;
  const size_t offset = address - map.base();
  PackedAccess race = 0;
  if (bytes == 4) {
    race = note<kShared>(order, cells, me, kind);
    for (size_t i = 0; i < 4; ++i) {
      AccessCells& part = map.byte_cells(offset + i);
      if (race == 0) race = order.conflict<kShared>(part, me, writes);
      if (writes) part.write = part.read = part.far_read = 0;
    }
    return race;
  }
  race = order.conflict<kShared>(cells, me, writes);
  for (size_t i = 0; i < bytes; ++i) {
    const PackedAccess found = note<kShared>(order, map.byte_cells(offset + i), me, kind);
    if (race == 0) race = found;
  }
  cells.narrow = interval_of(me);
  return race;
}

template <bool kShared>
[[gnu::cold, gnu::noinline]] void report_race(const BlockOrdering& order, const Touch& touch,
                                              PackedAccess race) {
  const EarlierAccess earlier = {is_atomic(race)                   ? "atomic"
                                 : order.conflict_was_with_write() ? "write"
                                                                   : "read",
                                 kShared ? static_cast<uint32_t>(touch.lane->block->linear)
                                         : order.block_of(interval_of(race)),
                                 thread_of(race), unpack_code(code_of(race))};
  report_touch(FindingKind::kRace, touch, &earlier);
}

/// The access that this one races with, or 0.
template <bool kShared>
[[gnu::always_inline]] inline PackedAccess find_race(const BlockOrdering& order, ShadowMap& map,
                                                     uintptr_t address, size_t bytes, Access kind,
                                                     PackedAccess me) {
  const uint32_t oldest = order.oldest_of_interest<kShared>();
  AccessCells* cells = &map.cells(map.word_of(address));
  PackedAccess race = 0;
  const uintptr_t end = address + bytes;
  for (uintptr_t at = address; at < end; ++cells) {
    const size_t n = std::min<size_t>(end - at, 4 - at % 4);
    const PackedAccess found = n == 4 && cells->narrow < oldest
                                   ? note<kShared>(order, *cells, me, kind)
                                   : note_with_bytes<kShared>(order, map, at, n, me, kind);
    if (race == 0) race = found;
    at += n;
  }
  return race;
}

template <bool kShared>
void check_races(BlockChecks& checks, ShadowMap& map, Lane& lane, uintptr_t address, size_t bytes,
                 Access kind, uintptr_t return_address) {
  if (kind == Access::kAtomic && !kShared) checks.order.atomic(address);
  const PackedAccess me = checks.order.pack(static_cast<uint32_t>(lane.index),
                                            kind == Access::kAtomic, pack_code(return_address));
  const PackedAccess race = find_race<kShared>(checks.order, map, address, bytes, kind, me);
  if (race != 0) {
    report_race<kShared>(checks.order, {&lane, address, bytes, kind, return_address}, race);
  }
}

/// Bounds and what was written, word by word.
[[gnu::noinline]] void check_state(const ShadowMap& map, Touch touch) {
  const bool reads = touch.kind == Access::kRead || touch.kind == Access::kAtomic;
  bool never_written = false;
  const uintptr_t end = touch.address + touch.bytes;
  for (uintptr_t at = touch.address; at < end;) {
    const size_t n = std::min<size_t>(end - at, 4 - at % 4);
    if (!map.contains(at)) end_with(FindingKind::kOutOfBounds, touch);
    uint8_t* state = map.state(map.word_of(at));
    const unsigned mask = word_mask(at, n);
    const unsigned written = mask << 4;
    const unsigned now = __atomic_load_n(state, __ATOMIC_RELAXED);
    if ((now & mask) != mask) end_with(FindingKind::kOutOfBounds, touch);
    if (reads && (now & written) != written) never_written = true;
    if (touch.kind == Access::kAsyncWrite) {
      take_state(state, written);
    } else if ((now & written) != written) {  // a finding is told once
      add_state(state, written);
    }
    at += n;
  }
  if (never_written) report_touch(FindingKind::kUninitialisedRead, touch);
}

/// Whether all bytes may be accessed and have been written: the usual case.
inline bool all_usable(const ShadowMap& map, uintptr_t address, size_t bytes, Access kind) {
  const size_t offset = address - map.base();
  if (kind == Access::kAsyncWrite || offset % 4 != 0 || offset + bytes > map.bytes()) return false;
  const uint8_t* state = map.state(offset / 4);
  if (bytes == 4) return *state == 0xff;
  if (bytes == 16) {
    uint32_t four;
    __builtin_memcpy(&four, state, 4);
    return four == 0xffffffffU;
  }
  return false;
}

// Where only the profile looks: memory of devices, not the engine's and the program's own.
bool is_device_memory(uintptr_t address) {
  return device_of_address(reinterpret_cast<const void*>(address)) != kForeignAddress;
}

}  // namespace

void check_access(Lane& lane, uintptr_t address, size_t bytes, Access kind,
                  uintptr_t return_address, size_t alignment) {
  const Block& block = *lane.block;
  auto& checks = *static_cast<BlockChecks*>(block.observer_data);
  const bool is_shared = address - reinterpret_cast<uintptr_t>(block.shared_low) <
                         static_cast<size_t>(block.shared_high - block.shared_low);
  if (checks.memory) {
    if ((address & (alignment - 1)) != 0) {
      end_with(FindingKind::kMisaligned, {&lane, address, bytes, kind, return_address});
    }
    ShadowMap* map = checks.shared.get();
    const BlockChecks::Page& page = checks.pages[address / kPageBytes % BlockChecks::kPages];
    if (!is_shared) {
      map = page.map;
      if (page.number != address / kPageBytes) {
        if (is_exchange_row(lane, address, kind)) return;
        map = find_map(checks, {&lane, address, bytes, kind, return_address});
        if (map == nullptr) return;
      }
    }
    if (!all_usable(*map, address, bytes, kind)) {
      check_state(*map, {&lane, address, bytes, kind, return_address});
    }
    if (!is_shared && page.used != nullptr) {
      page.used->note(reinterpret_cast<const void*>(address), bytes, kind != Access::kRead);
    }
    if (checks.races && !checks.order.exhausted()) {
      is_shared ? check_races<true>(checks, *map, lane, address, bytes, kind, return_address)
                : check_races<false>(checks, *map, lane, address, bytes, kind, return_address);
    }
  } else if (!is_shared && !is_device_memory(address)) {
    return;
  }
  if (checks.profile) checks.counts.access(lane, address, bytes, kind, return_address, is_shared);
}

}  // namespace cudasim
