#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cudasim/helpers.h"
#include "observer.h"
#include "worker.h"

namespace cudasim {

namespace {

// Every variable begins at a line of 32 banks, with as much free before and after it.
constexpr size_t kZone = 128;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void Worker::prepare_shared(const Launch& launch) {
  block_.variables.clear();
  block_.shared_used = 0;
  block_.shared_next = block_.shared_low + kZone;
  declare_shared(nullptr, launch.shared_bytes);
}

/// Null when the shared memory would pass its limit.
char* Worker::declare_shared(const SharedSite* site, size_t bytes) {
  Block& block = block_;
  const size_t used = round_up(block.shared_used, site ? site->alignment : 16) + bytes;
  if (used > block.launch->shared_limit) return nullptr;
  char* address = block.shared_next;
  block.shared_used = used;
  block.shared_next = address + round_up(bytes, kZone) + kZone;
  if (bytes > 0) std::memset(address, 0xff, bytes);  // NaN: what nobody wrote shows in results
  block.variables.push_back({site, address, bytes});
  observer::on_shared_declared(block, block.variables.back());
  return address;
}

void* Worker::shared_variable(const SharedSite& site) {
  for (const SharedVariable& variable : block_.variables) {
    if (variable.site == &site) return variable.address;
  }
  if (char* address = declare_shared(&site, site.bytes)) return address;
  fail("shared memory: " + std::string(site.name) + " takes " + std::to_string(site.bytes) +
       " bytes beside " + std::to_string(block_.shared_used) + " in use, the limit is " +
       std::to_string(block_.launch->shared_limit));
}

namespace {

Worker& worker_in_kernel() {
  if (current_lane == nullptr) {
    throw std::logic_error("cudasim: shared memory was asked for on the host");
  }
  return *current_lane->block->engine;
}

}  // namespace

void* shared_variable(const SharedSite& site) { return worker_in_kernel().shared_variable(site); }

void* dynamic_shared() {
  worker_in_kernel();
  return current_lane->block->variables.front().address;
}

size_t dynamic_shared_bytes() {
  worker_in_kernel();
  return current_lane->block->launch->shared_bytes;
}

}  // namespace cudasim
