#pragma once

// The profile's counting on one host thread: requests of the block at hand, sums of the launch.

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cudasim/profile.h"
#include "lane.h"

namespace cudasim {

/// Which bytes of a page of 4096 were read and written.
struct PageBytes {
  uint32_t read[128] = {};
  uint32_t written[128] = {};
};

struct SiteKey {
  uintptr_t return_address = 0;
  AccessClass access{};
  bool operator==(const SiteKey&) const = default;
  auto operator<=>(const SiteKey&) const = default;
};

/// What one launch, or one host thread's share of it, adds up to.
struct LaunchCounts {
  std::map<SiteKey, AccessCounts> sites;
  std::unordered_map<uintptr_t, PageBytes> pages;
  int64_t blocks = 0, threads = 0, barriers = 0, warp_syncs = 0;

  void add(const LaunchCounts& other);
};

class BlockProfile {
 public:
  void begin_block(const Block& block);
  void end_block();
  void barrier();  ///< lanes count their executions anew
  void warp_sync() { ++launch_.warp_syncs; }
  void access(const Lane& lane, uintptr_t address, size_t bytes, Access kind,
              uintptr_t return_address, bool shared);

  /// Hands over what was counted since the last call.
  LaunchCounts take();

 private:
  struct Request {
    uint32_t mask = 0;
    uint32_t bytes = 0;
    uintptr_t address[32] = {};
  };
  /// The open requests of one site and warp.
  struct WarpSite {
    uint32_t executions[32] = {};
    uint32_t first = 0;   ///< the execution of requests[0]
    uint32_t closed = 0;  ///< requests that all lanes have joined
    std::vector<Request> requests;
  };
  struct Site {
    SiteKey key;
    AccessCounts counts;
    WarpSite warps[32];
    uint32_t used_warps = 0;
  };

  Site& site_of(const SiteKey& key);
  void touch_bytes(uintptr_t address, size_t bytes, bool read, bool write);
  void close(Site& site, const Request& request, uint32_t exists);
  void flush();

  const Block* block_ = nullptr;
  std::unordered_map<uintptr_t, std::vector<int>> index_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::vector<Site*> used_;
  static constexpr size_t kCached = 256;
  Site* cached_[kCached] = {};
  uintptr_t page_number_ = 0;
  PageBytes* page_ = nullptr;
  LaunchCounts launch_;
};

/// 32-byte sectors of one request.
int64_t count_sectors(const uintptr_t* addresses, uint32_t mask, size_t bytes);
struct BankPasses {
  int64_t passes = 0;
  int64_t least = 0;
};
BankPasses count_bank_passes(const uintptr_t* addresses, uint32_t mask, size_t bytes);

}  // namespace cudasim
