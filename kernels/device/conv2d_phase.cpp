// The data gradient of a convolution with stride s: input position h gets w[k] dy[(h + pad - dil k)
// / s] from those taps k for which the division leaves no rest. With g = gcd(s, dil) they are
// k0 + j s / g, the same for all h that are equal modulo s (a phase), and each step of j moves the
// output position by -dil / g. So a phase is a convolution of its own, of stride 1.
#include <numeric>

#include "heddle/kernels/device/conv2d.h"

namespace heddle::cuda {

void check_conv2d_sizes(const char* op, const Conv2dGeometry& g) {
  constexpr int64_t kLimit = int64_t{1} << 29;
  const int64_t h = g.in_h + 2 * g.pad_h;
  const int64_t w = g.in_w + 2 * g.pad_w;
  HEDDLE_CHECK(h < kLimit && w < kLimit, "{}: the padded image is {} x {}, expected less than {}",
               op, h, w, kLimit);
}

Conv2dPhase find_phase(int64_t first, int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                       int64_t dilation) {
  const int64_t common = std::gcd(stride, dilation);
  Conv2dPhase phase{};
  phase.first = first;
  phase.count = (in - first + stride - 1) / stride;
  phase.tap_step = stride / common;
  phase.step = -(dilation / common);
  const int64_t rest = (first + pad) % stride;
  for (int64_t tap = 0; tap < phase.tap_step && tap < kernel; ++tap) {
    if (dilation * tap % stride != rest) continue;
    phase.tap = tap;
    phase.taps = (kernel - tap + phase.tap_step - 1) / phase.tap_step;
    phase.offset = (first + pad - dilation * tap) / stride;
    break;
  }
  return phase;
}

}  // namespace heddle::cuda
