#include "heddle/kernels/dropout.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

struct Images {
  int64_t images, planes, pixels;
  int64_t n() const { return images * planes * pixels; }
};

void check_dropout(DType dtype, const Images& images, int64_t offset, bool with_mask) {
  CAPTURE(name_of(dtype), images.images, images.planes, images.pixels, offset, with_mask);
  const Rng rng(21, RngPurpose::kDropout, 5, 6);
  const int64_t n = images.n();
  Mirror x(dtype, {n}, offset), y(dtype, {n}, offset), mask(DType::kUInt8, {n}, offset);
  x.fill_random(22);
  const auto args = [&](void* to, void* kept, const void* from) {
    return DropoutForwardArgs{dtype,
                              images.images,
                              images.planes,
                              images.pixels,
                              0.3F,
                              1.0 / 0.7,
                              rng,
                              to,
                              with_mask ? static_cast<uint8_t*>(kept) : nullptr,
                              from};
  };
  cpu::dropout_forward(args(y.host_data(), mask.host_data(), x.host_data()));
  cuda::dropout_forward(args(y.device_data(), mask.device_data(), x.device_data()), test_stream());
  CHECK_SAME_BITS(y);
  CHECK_SAME_BITS(mask);
  if (!with_mask) return;
  Mirror dx(dtype, {n}, offset);
  cpu::dropout_backward(
      {dtype, n, 1.0 / 0.7, dx.host_data(), x.host_data(), mask.host_as<uint8_t>()});
  cuda::dropout_backward(
      {dtype, n, 1.0 / 0.7, dx.device_data(), x.device_data(), mask.device_as<uint8_t>()},
      test_stream());
  CHECK_SAME_BITS(dx);
}

TEST_CASE("dropout on a device has the bits of the CPU's", "[dropout]") {
  for (const DType dtype : device_floats()) {
    for (const int64_t n : kernel_sizes()) check_dropout(dtype, {1, 1, n}, 0, true);
    for (const int64_t offset : {0, 1}) {
      check_dropout(dtype, {1, 1, 1025}, offset, false);
      check_dropout(dtype, {3, 8, 36}, offset, true);  // whole Philox blocks of whole groups
      check_dropout(dtype, {3, 8, 36}, offset, false);
      check_dropout(dtype, {3, 8, 35}, offset, true);  // a block spans two planes
      check_dropout(dtype, {3, 7, 36}, offset, true);
      check_dropout(dtype, {5, 33, 1}, offset, true);
    }
  }
}

}  // namespace
}  // namespace heddle
