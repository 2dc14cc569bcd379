// Crop, flip, normalise by a table and cut out, from planes of bytes to channels-last floats. A
// thread takes a pixel: neighbouring threads read neighbouring bytes of each plane, and their
// results pass through shared memory, so that they are written side by side. The table (3 KiB)
// stays in the first-level cache. The draws and the table come from the host: the same bits as the
// CPU's.
#include "heddle/kernels/augment_pixel.h"
#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {
namespace {

using namespace augment_pixel;

constexpr int kThreads = 256;

struct Pictures {
  const uint8_t* planes;
  const AugmentDraw* draws;
  const int64_t* indices;
  int64_t n_pixels;  // of all pictures
  Divisor pixels, width;
  int64_t cutout;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    augment_pixel_per_thread_kernel(const Pictures pictures, const T* table, T* out) {
  HEDDLE_SHARED(T, values, [kThreads * kChannels]);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = int64_t{blockIdx.x} * kThreads;
  if (first + thread < pictures.n_pixels) {
    int64_t picture = first + thread;
    const int64_t pixels = pictures.pixels.value();
    const int64_t width = pictures.width.value();
    int64_t y = pictures.pixels.split(picture);
    const int64_t x = pictures.width.split(y);
    const AugmentDraw draw = pictures.draws[picture];
    const bool cut = is_cut(draw, pictures.cutout, y, x);
    const int64_t from = source_of(draw, pixels / width, width, y, x);
    const int64_t source = pictures.indices == nullptr ? picture : pictures.indices[picture];
    const uint8_t* planes = pictures.planes + source * kChannels * pixels;
    for (int c = 0; c < kChannels; ++c) {
      const int byte = from < 0 ? 0 : planes[c * pixels + from];
      values[thread * kChannels + c] = cut ? from_float<T>(0.0F) : table[c * kBytes + byte];
    }
  }
  __syncthreads();
  const int64_t left = (pictures.n_pixels - first) * kChannels;
  for (int i = thread; i < kThreads * kChannels && i < left; i += kThreads)
    out[first * kChannels + i] = values[i];
}

template <class T>
void launch_augment(const AugmentArgs& args, StreamRef stream) {
  const int64_t pixels = args.height * args.width;
  if (args.n * pixels == 0) return;
  const Pictures pictures{args.planes,     args.draws,          args.indices, args.n * pixels,
                          Divisor(pixels), Divisor(args.width), args.cutout};
  launch("augment_pixel_per_thread_kernel", augment_pixel_per_thread_kernel<T>,
         {.grid = grid_for(args.n * pixels, kThreads), .block = kThreads}, stream, pictures,
         static_cast<const T*>(args.table), static_cast<T*>(args.out));
}

}  // namespace

void cuda::augment(const AugmentArgs& args, StreamRef stream) {
  dispatch_device_float("augment", args.dtype, [&]<class T>() { launch_augment<T>(args, stream); });
}

}  // namespace heddle
