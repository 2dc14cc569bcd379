#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What kernels asked of memory, counted from each access. Counts, not times. None of it exists in
// CUDA.
namespace cudasim {

/// A request is the n-th execution, since the last barrier, of one access in the source by the
/// lanes of a warp.
struct AccessCounts {
  int64_t requests = 0;
  int64_t partial_requests = 0;  ///< of fewer lanes than the warp has: divergence, tails
  int64_t lanes = 0;             ///< accesses of single threads
  int64_t bytes = 0;
  int64_t sectors = 0;    ///< global: 32-byte sectors touched, counted per request
  int64_t passes = 0;     ///< shared: turns of the 32 banks of 4 bytes
  int64_t conflicts = 0;  ///< shared: passes beyond one for each 32, 16 or 8 lanes (4, 8, 16 bytes)
  int64_t collisions = 0;  ///< atomics: lanes whose address another lane of the request has taken

  double sectors_per_request() const;
  AccessCounts& operator+=(const AccessCounts& other);
};

enum class AccessClass {
  kGlobalLoad,
  kGlobalStore,
  kGlobalAtomic,
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
};
constexpr int kAccessClasses = 6;
const char* access_class_name(AccessClass which);

struct LineProfile {
  std::string file;
  int line = 0;
  AccessClass access{};
  AccessCounts counts;
};

/// All launches of one kernel while a Profile lived.
struct KernelProfile {
  std::string kernel;
  int64_t launches = 0;
  int64_t blocks = 0;
  int64_t threads = 0;
  int64_t barriers = 0;    ///< of blocks
  int64_t warp_syncs = 0;  ///< __syncwarp of warps
  AccessCounts totals[kAccessClasses];

  // Global memory, each launch for itself: what would be moved if nothing were moved twice.
  int64_t read_bytes = 0;
  int64_t read_sectors = 0;
  int64_t written_bytes = 0;
  int64_t written_sectors = 0;

  std::vector<LineProfile> lines;  ///< by file and line

  const AccessCounts& of(AccessClass which) const { return totals[static_cast<int>(which)]; }
  /// Sectors of all requests against the compulsory ones: 1 where each is moved once.
  double load_excess() const;
  double store_excess() const;
};

/// Counts every launch that runs while it lives, of all host threads.
///
/// Launches are counted when they run: synchronise before reading. The environment's
/// CUDASIM_PROFILE=table prints a table when the program ends, CUDASIM_PROFILE=FILE.json writes
/// one.
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  std::vector<KernelProfile> kernels() const;
  /// The kernel whose name has this part; empty counts where there was none.
  KernelProfile kernel(const std::string& part_of_name) const;
  std::string table() const;
  std::string json() const;
  void clear();

 private:
  struct Collector* collector_;
};

}  // namespace cudasim
