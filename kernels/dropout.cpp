// Dropout (Srivastava et al. 2014), inverted: kept elements are scaled. The mask is a function of
// the random stream and the element's logical place alone, so storage order and threads do not
// matter; it is drawn in logical order, for channels-last images through a small tile that is
// turned. Backward reads a stored byte a element: ten Philox rounds would take longer than that
// byte's way to memory and back. Deterministic.
#include "heddle/kernels/dropout.h"

#include <algorithm>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle {
namespace {

constexpr int64_t kPixels = 256;  // pixels of a tile: 64 Philox blocks a plane
constexpr int64_t kPlanes = 64;   // planes of a tile: a cache line of mask bytes
constexpr int64_t kMaxBlocks = kPixels / 4 + 1;

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// drawn[i] = 1 where element 4 * first_block + i in logical order is kept, else 0.
HEDDLE_INLINE void draw_blocks(const Rng& rng, float probability, int64_t first_block,
                               int64_t n_blocks, uint8_t* drawn) {
  for (int64_t block = 0; block < n_blocks; ++block) {
    const auto words = rng.block(static_cast<uint32_t>(first_block + block));
    for (int64_t word = 0; word < 4; ++word)
      drawn[4 * block + word] =
          uniform_from_bits(words[static_cast<size_t>(word)]) < probability ? 0 : 1;
  }
}

/// keep[i * stride] for i in [0, n), n <= kPixels, of elements `first` + i in logical order.
HEDDLE_INLINE void draw_mask(const Rng& rng, float probability, int64_t first, int64_t n,
                             uint8_t* keep, int64_t stride) {
  uint8_t drawn[4 * kMaxBlocks];
  const int64_t first_block = first / 4;
  draw_blocks(rng, probability, first_block, (first + n + 3) / 4 - first_block, drawn);
  const uint8_t* from = drawn + first % 4;
  for (int64_t i = 0; i < n; ++i) keep[i * stride] = from[i];
}

template <class T>
struct Tile {
  const T* x;
  T* y;
  uint8_t* mask;           // may be null
  int64_t logical;         // place of the first element in logical order
  int64_t planes, pixels;  // of the tile
  int64_t all_planes, all_pixels;
};

/// y and mask of `n` neighbouring elements.
template <class T>
HEDDLE_INLINE void drop_run(const T* x, T* __restrict y, uint8_t* __restrict mask,
                            const uint8_t* keep, int64_t n, Compute<T> scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(keep[i] != 0 ? Compute<T>(x[i]) * scale : Compute<T>(0));
  if (mask != nullptr)
    for (int64_t i = 0; i < n; ++i) mask[i] = keep[i];
}

/// One tile: planes x pixels in logical order, pixels x planes in memory.
template <class T>
HEDDLE_INLINE void drop_tile(const Tile<T>& tile, const Rng& rng, float probability,
                             Compute<T> scale) {
  uint8_t keep[kPixels * kPlanes];
  if (tile.all_planes == 1) {
    draw_mask(rng, probability, tile.logical, tile.pixels, keep, 1);
    return drop_run(tile.x, tile.y, tile.mask, keep, tile.pixels, scale);
  }
  for (int64_t plane = 0; plane < tile.planes; ++plane)
    draw_mask(rng, probability, tile.logical + plane * tile.all_pixels, tile.pixels, keep + plane,
              kPlanes);
  for (int64_t pixel = 0; pixel < tile.pixels; ++pixel) {
    const int64_t row = pixel * tile.all_planes;
    drop_run(tile.x + row, tile.y + row, tile.mask == nullptr ? nullptr : tile.mask + row,
             keep + pixel * kPlanes, tile.planes, scale);
  }
}

template <class T>
void forward(const DropoutForwardArgs& args) {
  const int64_t plane_tiles = (args.planes + kPlanes - 1) / kPlanes;
  const int64_t pixel_tiles = (args.pixels + kPixels - 1) / kPixels;
  const auto scale = static_cast<Compute<T>>(args.scale);
  parallel_for(args.images * plane_tiles * pixel_tiles, [&](int64_t piece) {
    const int64_t plane = piece % plane_tiles * kPlanes;
    const int64_t pixel = piece / plane_tiles % pixel_tiles * kPixels;
    const int64_t image = piece / plane_tiles / pixel_tiles * args.planes * args.pixels;
    const int64_t at = image + pixel * args.planes + plane;
    const Tile<T> tile{static_cast<const T*>(args.x) + at,
                       static_cast<T*>(args.y) + at,
                       args.mask == nullptr ? nullptr : args.mask + at,
                       args.first + image + plane * args.pixels + pixel,
                       std::min(kPlanes, args.planes - plane),
                       std::min(kPixels, args.pixels - pixel),
                       args.planes,
                       args.pixels};
    cpu::vectorized([](Tile<T> t, Rng rng, float probability, Compute<T> factor)
                        HEDDLE_VECTOR_LOOP { drop_tile(t, rng, probability, factor); },
                    tile, args.rng, args.probability, scale);
  });
}

template <class T>
void backward(const DropoutBackwardArgs& args) {
  constexpr int64_t kGrain = 1 << 15;
  const auto scale = static_cast<Compute<T>>(args.scale);
  parallel_ranges(args.n, kGrain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* __restrict dx, const T* dy, const uint8_t* mask, Compute<T> factor, int64_t n)
            HEDDLE_VECTOR_LOOP {
              for (int64_t i = 0; i < n; ++i)
                dx[i] = T(mask[i] != 0 ? Compute<T>(dy[i]) * factor : Compute<T>(0));
            },
        static_cast<T*>(args.dx) + begin, static_cast<const T*>(args.dy) + begin, args.mask + begin,
        scale, end - begin);
  });
}

}  // namespace

void cpu::dropout_forward(const DropoutForwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { forward<T>(args); });
}

void cpu::dropout_backward(const DropoutBackwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { backward<T>(args); });
}

}  // namespace heddle
