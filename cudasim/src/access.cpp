// What helpers do on behalf of kernels: reported accesses and asynchronous copies.
#include <cstring>
#include <stdexcept>

#include "cudasim/helpers.h"
#include "observer.h"

namespace cudasim {

namespace {

Lane& lane_here() {
  if (current_lane == nullptr) {
    throw std::logic_error("cudasim: an asynchronous copy was begun on the host");
  }
  return *current_lane;
}

void land(Lane& lane, const AsyncCopy& copy) {
  observer::on_access(lane, copy.shared, copy.bytes, Access::kWrite, copy.pc);
  char* to = static_cast<char*>(copy.shared);
  if (copy.source_bytes > 0) std::memcpy(to, copy.global, copy.source_bytes);
  std::memset(to + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}

/// Lands the copies of all groups before `group`, in order.
void land_before(Lane& lane, int group) {
  size_t n_landed = 0;
  while (n_landed < lane.async_copies.size() && lane.async_copies[n_landed].group < group) {
    land(lane, lane.async_copies[n_landed++]);
  }
  lane.async_copies.erase(lane.async_copies.begin(),
                          lane.async_copies.begin() + static_cast<std::ptrdiff_t>(n_landed));
}

}  // namespace

void report_access(const void* address, size_t bytes, Access kind) {
  if (current_lane == nullptr) return;
  observer::on_access(*current_lane, address, bytes, kind, __builtin_return_address(0));
}

void raw_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

void async_copy(void* shared, const void* global, size_t bytes, size_t source_bytes) {
  Lane& lane = lane_here();
  const void* pc = __builtin_return_address(0);
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    end_launch("an asynchronous copy is of 4, 8 or 16 bytes");
  }
  if (source_bytes > bytes) end_launch("an asynchronous copy reads more than it writes");
  if (source_bytes > 0) {
    observer::on_access(lane, global, source_bytes, Access::kRead, pc);
  }
  observer::on_access(lane, shared, bytes, Access::kAsyncWrite, pc);
  std::memset(shared, 0xff, bytes);
  lane.async_copies.push_back({shared, global, bytes, source_bytes, lane.async_group, pc});
}

void async_commit() { ++lane_here().async_group; }

void async_wait(int groups_left) {
  Lane& lane = lane_here();
  land_before(lane, lane.async_group - groups_left);
}

void async_wait_all() {
  Lane& lane = lane_here();
  land_before(lane, lane.async_group + 1);
}

}  // namespace cudasim
