#include "heddle/kernels/random.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

TEST_CASE("random numbers on a device have the bits of the CPU's", "[random]") {
  const Rng rng(20, RngPurpose::kUser, 0x123456789ABCDEF0, 7);
  for (const Distribution distribution : {Distribution::kUniform, Distribution::kNormal}) {
    for (const DType dtype : device_floats()) {
      for (const int64_t n : kernel_sizes()) {
        for (const int64_t offset : {0, 1}) {
          CAPTURE(static_cast<int>(distribution), name_of(dtype), n, offset);
          Mirror y(dtype, {n}, offset);
          cpu::random({y.host(), rng, distribution, 0.1, 1.3});
          cuda::random({y.device(), rng, distribution, 0.1, 1.3}, test_stream());
          CHECK_SAME_BITS(y);
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle
