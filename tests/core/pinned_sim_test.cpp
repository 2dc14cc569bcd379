// Pinned memory under cudasim's check of order.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include <cudasim/control.h>
#include <cudasim/order.h>
#include "heddle/core/buffer.h"
#include "heddle/core/pinned_buffer.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kFirst{DeviceType::kCuda, 0};
constexpr int64_t kBytes = 1 << 15;

/// Three batches through pinned memory, the stream's use of it recorded or forgotten.
std::vector<cudasim::OrderFinding> stage(bool recorded) {
  const cudasim::ExpectOrderFindings expected;
  const Stream stream(kFirst);
  const StreamGuard guard(stream);
  const Buffer target(kBytes, stream);
  for (int i = 0; i < 3; ++i) {
    const PinnedBuffer slot(kBytes);
    memory::copy(target.data(), kFirst, slot.data(), Device::cpu(), kBytes, /*wait=*/false);
    if (recorded) slot.record_use(stream);
  }
  stream.synchronize();
  return expected.found();
}

TEST_CASE("pinned memory is handed out again when its copies are done", "[device][sim]") {
  REQUIRE(stage(true).empty());
}

TEST_CASE("a use of pinned memory that was not recorded is found", "[device][sim]") {
  const std::vector<cudasim::OrderFinding> found = stage(false);
  REQUIRE(!found.empty());
  REQUIRE(found[0].fault == cudasim::OrderFault::kMissingWait);
  REQUIRE_THAT(to_text(found[0]), ContainsSubstring("the host (write)"));
}

/// Batch k is bytes of value k; what the device has of each when all is done.
bool all_arrive(int n_batches) {
  const Stream stream(kFirst);
  const StreamGuard guard(stream);
  std::vector<Buffer> batches;
  for (int k = 0; k < n_batches; ++k) {
    const PinnedBuffer slot(kBytes);
    std::memset(slot.data(), k, kBytes);
    batches.emplace_back(kBytes, stream);
    memory::copy(batches.back().data(), kFirst, slot.data(), Device::cpu(), kBytes, false);
    slot.record_use(stream);
  }
  std::vector<unsigned char> bytes(kBytes);
  for (int k = 0; k < n_batches; ++k) {
    memory::copy(bytes.data(), Device::cpu(), batches[static_cast<size_t>(k)].data(), kFirst,
                 kBytes);
    for (const unsigned char byte : bytes)
      if (byte != k) return false;
  }
  return true;
}

TEST_CASE("DL-5: batches go whole through pinned memory, whenever copies run", "[device][sim]") {
  const cudasim::Machine machine = cudasim::machine();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    cudasim::set_schedule(cudasim::Schedule::kRandom, seed);
    CHECK(all_arrive(64));
  }
  cudasim::set_schedule(cudasim::Schedule::kLatest, 1);
  CHECK(all_arrive(64));
  cudasim::set_schedule(machine.schedule, machine.seed);
}

}  // namespace
}  // namespace heddle
