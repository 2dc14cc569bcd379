// Pinned memory under cudasim's check of order.
#include <cuda_runtime.h>

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

}  // namespace
}  // namespace heddle
