#include "profile_block.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace cudasim {

namespace {

AccessClass class_of(Access kind, bool shared) {
  if (kind == Access::kAtomic) {
    return shared ? AccessClass::kSharedAtomic : AccessClass::kGlobalAtomic;
  }
  if (kind == Access::kRead) return shared ? AccessClass::kSharedLoad : AccessClass::kGlobalLoad;
  return shared ? AccessClass::kSharedStore : AccessClass::kGlobalStore;
}

bool is_shared(AccessClass access) { return access >= AccessClass::kSharedLoad; }

// How many different values; sorts them.
template <class T>
int64_t count_distinct(std::vector<T>& values) {
  if (!std::is_sorted(values.begin(), values.end())) std::sort(values.begin(), values.end());
  return std::unique(values.begin(), values.end()) - values.begin();
}

int64_t count_addresses(const uintptr_t* addresses, uint32_t mask) {
  std::vector<uintptr_t> distinct;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    distinct.push_back(addresses[std::countr_zero(rest)]);
  }
  return count_distinct(distinct);
}

}  // namespace

int64_t count_sectors(const uintptr_t* addresses, uint32_t mask, size_t bytes) {
  static thread_local std::vector<uintptr_t> sectors;
  sectors.clear();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uintptr_t address = addresses[std::countr_zero(rest)];
    for (uintptr_t s = address / 32; s <= (address + bytes - 1) / 32; ++s) {
      if (sectors.empty() || sectors.back() != s) sectors.push_back(s);
    }
  }
  return count_distinct(sectors);
}

BankPasses count_bank_passes(const uintptr_t* addresses, uint32_t mask, size_t bytes) {
  const int lanes_at_once = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  static thread_local std::vector<uintptr_t> words;
  BankPasses result;
  for (int first = 0; first < 32; first += lanes_at_once) {
    words.clear();
    for (int lane = first; lane < first + lanes_at_once; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      for (uintptr_t w = addresses[lane] / 4; w <= (addresses[lane] + bytes - 1) / 4; ++w) {
        words.push_back(w);
      }
    }
    if (words.empty()) continue;
    const int64_t n_words = count_distinct(words);
    int64_t in_bank[32] = {};
    int64_t most = 0;
    for (int64_t i = 0; i < n_words; ++i) most = std::max(most, ++in_bank[words[i] % 32]);
    result.passes += most;
    ++result.least;
  }
  return result;
}

void LaunchCounts::add(const LaunchCounts& other) {
  for (const auto& [key, counts] : other.sites) sites[key] += counts;
  for (const auto& [number, bytes] : other.pages) {
    PageBytes& mine = pages[number];
    for (int i = 0; i < 128; ++i) {
      mine.read[i] |= bytes.read[i];
      mine.written[i] |= bytes.written[i];
    }
  }
  blocks += other.blocks;
  threads += other.threads;
  barriers += other.barriers;
  warp_syncs += other.warp_syncs;
}

void BlockProfile::begin_block(const Block& block) {
  block_ = &block;
  ++launch_.blocks;
  launch_.threads += block.n_threads;
}

void BlockProfile::end_block() {
  flush();
  block_ = nullptr;
}

void BlockProfile::barrier() {
  flush();
  ++launch_.barriers;
}

BlockProfile::Site& BlockProfile::site_of(const SiteKey& key) {
  Site*& cached = cached_[(key.return_address ^ key.return_address >> 8) % kCached];
  if (cached != nullptr && cached->key == key) return *cached;
  std::vector<int>& candidates = index_[key.return_address];
  for (const int i : candidates) {
    if (sites_[i]->key == key) return *(cached = sites_[i].get());
  }
  candidates.push_back(static_cast<int>(sites_.size()));
  sites_.push_back(std::make_unique<Site>());
  sites_.back()->key = key;
  return *(cached = sites_.back().get());
}

void BlockProfile::touch_bytes(uintptr_t address, size_t bytes, bool read, bool write) {
  while (bytes > 0) {
    const uintptr_t number = address / 4096;
    if (page_ == nullptr || number != page_number_) {
      page_ = &launch_.pages[number];
      page_number_ = number;
    }
    const size_t n = std::min<size_t>(bytes, 32 - address % 32);
    const size_t sector = address / 32 % 128;
    const auto bits = static_cast<uint32_t>(((uint64_t{1} << n) - 1) << address % 32);
    if (read) page_->read[sector] |= bits;
    if (write) page_->written[sector] |= bits;
    address += n;
    bytes -= n;
  }
}

void BlockProfile::access(const Lane& lane, uintptr_t address, size_t bytes, Access kind,
                          uintptr_t return_address, bool shared) {
  if (kind == Access::kAsyncWrite) return;  // counted where it lands
  if (!shared) touch_bytes(address, bytes, kind != Access::kWrite, kind != Access::kRead);
  Site& site = site_of({return_address, class_of(kind, shared)});
  if (site.used_warps == 0) used_.push_back(&site);
  site.used_warps |= 1U << lane.warp;
  WarpSite& warp = site.warps[lane.warp];
  const uint32_t number = warp.executions[lane.lane]++ - warp.first;
  if (number >= warp.requests.size()) warp.requests.resize(number + 1);
  Request& request = warp.requests[number];
  request.mask |= 1U << lane.lane;
  request.bytes = static_cast<uint32_t>(bytes);
  request.address[lane.lane] = address;
  const uint32_t exists = block_->warps[lane.warp].exists;
  if (request.mask != exists) return;
  close(site, request, exists);
  request.bytes = 0;
  if (++warp.closed == warp.requests.size()) {
    warp.first += warp.closed;
    warp.closed = 0;
    warp.requests.clear();
  }
}

void BlockProfile::close(Site& site, const Request& request, uint32_t exists) {
  AccessCounts& counts = site.counts;
  const int lanes = std::popcount(request.mask);
  ++counts.requests;
  counts.partial_requests += request.mask != exists;
  counts.lanes += lanes;
  counts.bytes += int64_t{lanes} * request.bytes;
  if (is_shared(site.key.access)) {
    const BankPasses banks = count_bank_passes(request.address, request.mask, request.bytes);
    counts.passes += banks.passes;
    counts.conflicts += banks.passes - banks.least;
  } else {
    counts.sectors += count_sectors(request.address, request.mask, request.bytes);
  }
  if (site.key.access == AccessClass::kGlobalAtomic ||
      site.key.access == AccessClass::kSharedAtomic) {
    counts.collisions += lanes - count_addresses(request.address, request.mask);
  }
}

void BlockProfile::flush() {
  for (Site* site : used_) {
    for (uint32_t rest = site->used_warps; rest != 0; rest &= rest - 1) {
      const int w = std::countr_zero(rest);
      WarpSite& warp = site->warps[w];
      for (const Request& request : warp.requests) {
        if (request.bytes > 0) close(*site, request, block_->warps[w].exists);
      }
      warp.requests.clear();
      warp.first = warp.closed = 0;
      std::fill(std::begin(warp.executions), std::end(warp.executions), 0U);
    }
    site->used_warps = 0;
  }
  used_.clear();
}

LaunchCounts BlockProfile::take() {
  for (const auto& site : sites_) {
    if (site->counts.requests > 0) launch_.sites[site->key] += site->counts;
    site->counts = {};
  }
  page_ = nullptr;
  return std::exchange(launch_, {});
}

}  // namespace cudasim
