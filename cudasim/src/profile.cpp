#include "profile.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "checks.h"
#include "findings_list.h"
#include "symbols.h"

namespace cudasim {

/// What one Profile has gathered.
struct Collector {
  struct Kernel {
    KernelProfile sums;  // names and lines are filled in when asked for
    std::map<SiteKey, AccessCounts> sites;
  };
  std::map<const void*, Kernel> kernels;
};

namespace {

struct Collectors {
  std::mutex mutex;
  std::vector<Collector*> alive;
  std::atomic<int> count{0};
};

Collectors& collectors() {
  static auto* all = new Collectors;
  return *all;
}

void add_pages(KernelProfile& sums, const LaunchCounts& counts) {
  for (const auto& [number, page] : counts.pages) {
    for (int i = 0; i < 128; ++i) {
      sums.read_bytes += std::popcount(page.read[i]);
      sums.read_sectors += page.read[i] != 0;
      sums.written_bytes += std::popcount(page.written[i]);
      sums.written_sectors += page.written[i] != 0;
    }
  }
}

KernelProfile named(const void* function, const Collector::Kernel& kernel) {
  KernelProfile profile = kernel.sums;
  profile.kernel = kernel_name(function);
  std::map<std::tuple<std::string, int, AccessClass>, AccessCounts> lines;
  for (const auto& [key, counts] : kernel.sites) {
    const SourceFrame frame = source_at(key.return_address);
    lines[{frame.file, frame.line, key.access}] += counts;
    profile.totals[static_cast<int>(key.access)] += counts;
  }
  for (const auto& [place, counts] : lines) {
    profile.lines.push_back({std::get<0>(place), std::get<1>(place), std::get<2>(place), counts});
  }
  return profile;
}

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// The whole program's profile, where the environment asks for one.
class ProgramProfile {
 public:
  ProgramProfile() {
    if (const char* wanted = std::getenv("CUDASIM_PROFILE")) {
      where_ = wanted;
      FindingsList::get();  // whose handler may end the program, and so must come last
      profile_ = new Profile;
      std::atexit([] { instance_.write(); });
    }
  }

 private:
  void write() {
    if (where_ == "table") {
      std::fprintf(stderr, "%s", profile_->table().c_str());
    } else if (!(std::ofstream(where_) << profile_->json() << "\n").flush()) {
      std::fprintf(stderr, "cudasim: %s: the profile could not be written\n", where_.c_str());
    }
  }

  std::string where_;
  Profile* profile_ = nullptr;
  static ProgramProfile instance_;
};
ProgramProfile ProgramProfile::instance_;

}  // namespace

bool profile_wanted() { return collectors().count.load(std::memory_order_relaxed) > 0; }

void add_to_profiles(const Launch& launch, LaunchCounts counts) {
  const std::lock_guard lock(collectors().mutex);
  for (Collector* collector : collectors().alive) {
    Collector::Kernel& kernel = collector->kernels[launch.function];
    ++kernel.sums.launches;
    kernel.sums.blocks += counts.blocks;
    kernel.sums.threads += counts.threads;
    kernel.sums.barriers += counts.barriers;
    kernel.sums.warp_syncs += counts.warp_syncs;
    add_pages(kernel.sums, counts);
    for (const auto& [key, site] : counts.sites) kernel.sites[key] += site;
  }
}

const char* access_class_name(AccessClass which) {
  switch (which) {
    case AccessClass::kGlobalLoad:
      return "global load";
    case AccessClass::kGlobalStore:
      return "global store";
    case AccessClass::kGlobalAtomic:
      return "global atomic";
    case AccessClass::kSharedLoad:
      return "shared load";
    case AccessClass::kSharedStore:
      return "shared store";
    case AccessClass::kSharedAtomic:
      return "shared atomic";
  }
  return "access";
}

AccessCounts& AccessCounts::operator+=(const AccessCounts& other) {
  requests += other.requests;
  partial_requests += other.partial_requests;
  lanes += other.lanes;
  bytes += other.bytes;
  sectors += other.sectors;
  passes += other.passes;
  conflicts += other.conflicts;
  collisions += other.collisions;
  return *this;
}

double AccessCounts::sectors_per_request() const { return ratio(sectors, requests); }

double KernelProfile::load_excess() const {
  return ratio(of(AccessClass::kGlobalLoad).sectors, read_sectors);
}
double KernelProfile::store_excess() const {
  return ratio(of(AccessClass::kGlobalStore).sectors, written_sectors);
}

Profile::Profile() : collector_(new Collector) {
  const std::lock_guard lock(collectors().mutex);
  collectors().alive.push_back(collector_);
  ++collectors().count;
  update_observed();
}

Profile::~Profile() {
  const std::lock_guard lock(collectors().mutex);
  std::erase(collectors().alive, collector_);
  --collectors().count;
  delete collector_;
  update_observed();
}

std::vector<KernelProfile> Profile::kernels() const {
  const std::lock_guard lock(collectors().mutex);
  std::vector<KernelProfile> all;
  for (const auto& [function, kernel] : collector_->kernels) {
    all.push_back(named(function, kernel));
  }
  std::sort(all.begin(), all.end(),
            [](const KernelProfile& a, const KernelProfile& b) { return a.kernel < b.kernel; });
  return all;
}

KernelProfile Profile::kernel(const std::string& part_of_name) const {
  for (KernelProfile& found : kernels()) {
    if (found.kernel.find(part_of_name) != std::string::npos) return found;
  }
  return {};
}

void Profile::clear() {
  const std::lock_guard lock(collectors().mutex);
  collector_->kernels.clear();
}

std::string Profile::table() const { return profile_table(kernels()); }
std::string Profile::json() const { return profile_json(kernels()); }

}  // namespace cudasim
