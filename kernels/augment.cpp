// Crop, flip, normalise by a table and cut out, from planes of bytes to channels-last floats. One
// read and one write an element. (The loader's workers have ImageTransform::apply, which goes along
// runs of pixels; this is the whole batch at once, as the CUDA kernel does it.) Deterministic.
#include "heddle/kernels/augment.h"

#include "heddle/kernels/augment_pixel.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle {
namespace {

using namespace augment_pixel;

template <class T>
void augment_picture(const AugmentArgs& args, int64_t picture) {
  const AugmentDraw& draw = args.draws[picture];
  const T* table = static_cast<const T*>(args.table);
  const int64_t pixels = args.height * args.width;
  const int64_t source = args.indices == nullptr ? picture : args.indices[picture];
  const uint8_t* planes = args.planes + source * kChannels * pixels;
  T* out = static_cast<T*>(args.out) + picture * kChannels * pixels;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const int64_t y = pixel / args.width;
    const int64_t x = pixel % args.width;
    const bool cut = is_cut(draw, args.cutout, y, x);
    const int64_t from = source_of(draw, args.height, args.width, y, x);
    for (int64_t c = 0; c < kChannels; ++c) {
      const uint8_t byte = from < 0 ? uint8_t{0} : planes[c * pixels + from];
      out[pixel * kChannels + c] = cut ? T(0.0F) : table[c * kBytes + byte];
    }
  }
}

}  // namespace

void cpu::augment(const AugmentArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() {
    parallel_for(args.n, [&](int64_t picture) { augment_picture<T>(args, picture); });
  });
}

}  // namespace heddle
