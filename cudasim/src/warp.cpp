#include "cudasim/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "cudasim/helpers.h"
#include "observer.h"
#include "worker.h"

namespace cudasim {

Exchange* Worker::new_exchange() {
  if (free_exchanges_.empty()) {
    exchanges_.push_back(std::make_unique<Exchange>());
    free_exchanges_.push_back(exchanges_.back().get());
  }
  Exchange* exchange = free_exchanges_.back();
  free_exchanges_.pop_back();
  return exchange;
}

/// The lane will not read its last collective's rows again.
void Worker::drop_exchange(Lane& lane) {
  Exchange* exchange = lane.exchange;
  lane.exchange = nullptr;
  if (exchange != nullptr && --exchange->readers == 0) free_exchanges_.push_back(exchange);
}

/// The exchange of the lanes in `mask` that forms, begun where there is none.
Exchange& Worker::join(Warp& warp, unsigned mask, Collective kind, size_t bytes) {
  for (Exchange* forming : warp.forming) {
    if (forming->mask != mask) continue;
    if (forming->kind != static_cast<int>(kind) || forming->bytes != bytes) {
      fail("lanes of one mask have come to different warp collectives");
    }
    return *forming;
  }
  Exchange* exchange = new_exchange();
  exchange->mask = mask;
  exchange->kind = static_cast<int>(kind);
  exchange->bytes = bytes;
  exchange->arrived = 0;
  exchange->ballot = 0;
  if (exchange->rows.size() < 32 * bytes) exchange->rows.resize(32 * bytes);
  warp.forming.push_back(exchange);
  return *exchange;
}

Exchange& Worker::collect(unsigned mask, Collective kind, const void* mine, size_t bytes, bool vote,
                          const void* pc) {
  Lane& lane = *current_lane;
  Warp& warp = block_.warps[lane.warp];
  const unsigned bit = 1U << lane.lane;
  mask &= warp.exists;  // a block's last warp may have fewer lanes
  if ((mask & bit) == 0) fail("a warp collective was called with a mask without the caller's lane");
  if ((mask & warp.exited) != 0) fail("a warp collective names lanes whose threads have ended");
  drop_exchange(lane);
  Exchange& exchange = join(warp, mask, kind, bytes);
  if (bytes > 0) {
    std::memcpy(exchange.rows.data() + static_cast<size_t>(lane.lane) * bytes, mine, bytes);
  }
  exchange.arrived |= bit;
  if (vote) exchange.ballot |= bit;
  lane.exchange = &exchange;
  if (exchange.arrived == mask) {
    complete(exchange, warp, lane);
  } else {
    lane.wait = Wait::kWarp;
    lane.wait_mask = mask;
    lane.wait_pc = pc;
    suspend();
  }
  return exchange;
}

/// Lets the other lanes go on; the last one never stopped.
void Worker::complete(Exchange& exchange, Warp& warp, Lane& last) {
  exchange.readers = std::popcount(exchange.mask);
  std::erase(warp.forming, &exchange);
  if (exchange.kind == static_cast<int>(Collective::kSyncWarp)) {
    observer::on_warp_sync(block_, last.warp, exchange.mask);
  }
  const unsigned others = exchange.mask & ~(1U << last.lane);
  for (unsigned rest = others; rest != 0; rest &= rest - 1) {
    block_.lanes[last.warp * 32 + std::countr_zero(rest)].wait = Wait::kNone;
  }
  make_ready(last.warp, others);
}

namespace {

Worker& worker_in_kernel() {
  if (current_lane == nullptr) {
    throw std::logic_error("cudasim: a warp collective was called on the host");
  }
  return *current_lane->block->engine;
}

const uint64_t* words(const Exchange& exchange) {
  return reinterpret_cast<const uint64_t*>(exchange.rows.data());
}

/// The lane to read from, or -1 for the caller's own value, as the PTX manual's shfl.
int shuffle_source(Shuffle mode, unsigned operand, int width, int lane) {
  const int base = lane & -width;
  const int last = base + width - 1;
  int source = -1;
  switch (mode) {
    case Shuffle::kIndex:
      return base | static_cast<int>(operand & static_cast<unsigned>(width - 1));
    case Shuffle::kUp:
      source = lane - static_cast<int>(operand & 31U);
      return source < base ? -1 : source;
    case Shuffle::kDown:
      source = lane + static_cast<int>(operand & 31U);
      return source > last ? -1 : source;
    case Shuffle::kXor:
      source = lane ^ static_cast<int>(operand & 31U);
      return source > last ? -1 : source;
  }
  return -1;
}

template <class T, class Combine>
T reduce(unsigned mask, T value, const void* pc, Combine combine) {
  const uint64_t word = static_cast<uint64_t>(value);
  const Exchange& exchange =
      worker_in_kernel().collect(mask, Collective::kReduce, &word, sizeof(word), false, pc);
  bool first = true;
  T result{};
  for (unsigned rest = exchange.mask; rest != 0; rest &= rest - 1) {
    const T other = static_cast<T>(words(exchange)[std::countr_zero(rest)]);
    result = first ? other : combine(result, other);
    first = false;
  }
  return result;
}

}  // namespace

uint64_t warp_shuffle(unsigned mask, uint64_t value, Shuffle mode, unsigned operand, int width) {
  Worker& worker = worker_in_kernel();
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    worker.fail("a shuffle's width is " + std::to_string(width) + ", expected 1, 2, 4, ... or 32");
  }
  const Exchange& exchange = worker.collect(mask, Collective::kShuffle, &value, sizeof(value),
                                            false, __builtin_return_address(0));
  const int source = shuffle_source(mode, operand, width, current_lane->lane);
  if (source < 0) return value;
  if ((exchange.mask >> source & 1U) == 0) {
    worker.fail("a shuffle reads from lane " + std::to_string(source) +
                ", which does not take part in it");
  }
  return words(exchange)[source];
}

unsigned warp_ballot(unsigned mask, bool predicate) {
  return worker_in_kernel()
      .collect(mask, Collective::kBallot, nullptr, 0, predicate, __builtin_return_address(0))
      .ballot;
}

unsigned warp_match_any(unsigned mask, uint64_t value) {
  const Exchange& exchange = worker_in_kernel().collect(
      mask, Collective::kMatch, &value, sizeof(value), false, __builtin_return_address(0));
  unsigned equal = 0;
  for (unsigned rest = exchange.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (words(exchange)[lane] == value) equal |= 1U << lane;
  }
  return equal;
}

unsigned warp_match_all(unsigned mask, uint64_t value, int* all_equal) {
  const Exchange& exchange = worker_in_kernel().collect(
      mask, Collective::kMatch, &value, sizeof(value), false, __builtin_return_address(0));
  bool all = true;
  for (unsigned rest = exchange.mask; rest != 0; rest &= rest - 1) {
    all = all && words(exchange)[std::countr_zero(rest)] == value;
  }
  *all_equal = all;
  return all ? exchange.mask : 0;
}

const void* warp_exchange(unsigned mask, const void* mine, size_t bytes) {
  return worker_in_kernel()
      .collect(mask, Collective::kExchange, mine, bytes, false, __builtin_return_address(0))
      .rows.data();
}

}  // namespace cudasim

using cudasim::Collective;

void __syncwarp(unsigned mask) {
  cudasim::worker_in_kernel().collect(mask, Collective::kSyncWarp, nullptr, 0, false,
                                      __builtin_return_address(0));
}

#define CUDASIM_REDUCE(name, type, expression)                                 \
  type name(unsigned mask, type value) {                                       \
    return cudasim::reduce(mask, value, __builtin_return_address(0),           \
                           [](type a, type b) -> type { return expression; }); \
  }
CUDASIM_REDUCE(__reduce_add_sync, unsigned, a + b)
CUDASIM_REDUCE(__reduce_min_sync, unsigned, std::min(a, b))
CUDASIM_REDUCE(__reduce_max_sync, unsigned, std::max(a, b))
CUDASIM_REDUCE(__reduce_and_sync, unsigned, a& b)
CUDASIM_REDUCE(__reduce_or_sync, unsigned, a | b)
CUDASIM_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
CUDASIM_REDUCE(__reduce_min_sync, int, std::min(a, b))
CUDASIM_REDUCE(__reduce_max_sync, int, std::max(a, b))

int __reduce_add_sync(unsigned mask, int value) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value)));
}
