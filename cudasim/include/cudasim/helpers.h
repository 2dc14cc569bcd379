#pragma once

#include <cstddef>

// What the helpers of kernels/device are written with under cudasim. None of it exists in CUDA.
namespace cudasim {

enum class Access {
  kRead,
  kWrite,
  kAtomic,
  kAsyncWrite,  ///< an asynchronous copy was begun: the bytes are undefined until its kWrite
};

/// Tells the checkers of an access that the compiler's hooks do not see, as one request of its
/// full width. Does not perform it.
void report_access(const void* address, size_t bytes, Access kind);

/// Copies unseen by the hooks; goes with report_access.
void raw_copy(void* to, const void* from, size_t bytes);

/// Every lane of `mask` gives `bytes`; returns the table [32][bytes], valid until the lane's next
/// collective. Rows of lanes outside `mask` are undefined.
const void* warp_exchange(unsigned mask, const void* mine, size_t bytes);

/// cp.async: `source_bytes` of `global` and zeros after them land in `shared` (`bytes` in all) at
/// the async_wait that covers them and no earlier; until then `shared` holds rubbish.
void async_copy(void* shared, const void* global, size_t bytes, size_t source_bytes);
void async_commit();               ///< closes a group of copies
void async_wait(int groups_left);  ///< lands all groups of this lane but the last `groups_left`
void async_wait_all();             ///< lands all, groups or not (cp.async.wait_all)

/// Where a kernel declares shared memory.
struct SharedSite {
  const char* name;
  size_t bytes;
  size_t alignment;
  const char* file;
  int line;
};

/// The variable's place in this block's shared memory.
void* shared_variable(const SharedSite& site);
void* dynamic_shared();
size_t dynamic_shared_bytes();

int lane_index();  ///< in its warp
bool in_kernel();  ///< false on the host

/// Ends the launch with cudaErrorLaunchFailure and this text.
[[noreturn]] void fail_launch(const char* message);

}  // namespace cudasim
