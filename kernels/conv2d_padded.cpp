// y = conv(x, w) + b of few input channels, over images whose padding is written out: the taps of a
// filter row are one segment of the sums, the pixels of an output line lie at even distances, and
// all tiles use the same pointers with other offsets. Sums are kept in T. Deterministic.
#include "heddle/kernels/conv2d_padded.h"

#include <algorithm>

#include "heddle/kernels/host/filters.h"
#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/images.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kMinPiece = int64_t{1} << 19;  // multiply-adds that are worth a piece of work

/// Fetches the cache lines of n values that will be written soon. A store to memory that is in no
/// cache holds up the stores behind it, and at last the arithmetic.
template <class T>
void fetch_to_write(const T* data, int64_t n) {
  constexpr int64_t kLine = 64;
  const char* const bytes = reinterpret_cast<const char*>(data);
  for (int64_t i = 0; i < n * static_cast<int64_t>(sizeof(T)); i += kLine)
    __builtin_prefetch(bytes + i, 1);
}

template <class T>
class PaddedForward {
 public:
  explicit PaddedForward(const Conv2dForwardArgs& args)
      : args_(args),
        g_(args.geometry),
        images_(g_, static_cast<const T*>(args.x)),
        packed_(g_.kernel_h, g_.kernel_w * g_.in_channels, g_.out_channels),
        table_(1, g_.kernel_h) {
    pack_filters(packed_, static_cast<const T*>(args.w), g_.kernel_h, g_.kernel_w * g_.in_channels);
    const TapSource<T>& source = images_.source();
    for (int64_t s = 0; s < g_.kernel_h; ++s) {
      table_.active(0)[s] = s;
      table_.a(0)[s * kernels_.mr] =
          source.data + source.taps[static_cast<size_t>(s)].row * source.w * source.channels;
    }
    for (int64_t r = 0; r < kernels_.mr; ++r)
      table_.c(0)[r] = static_cast<T*>(args.y) + r * g_.out_channels;
  }

  void run() const {
    const int64_t line = std::max<int64_t>(g_.out_w * packed_.depth() * g_.out_channels, 1);
    parallel_ranges(g_.batch * g_.out_h, std::max<int64_t>(kMinPiece / line, 1),
                    [&](int64_t begin, int64_t end) {
                      for (const DepthBlock& block : packed_.blocks()) {
                        RowsTile<T> tile = tile_of(block);
                        for (int64_t i = begin; i < end; ++i) multiply_line(i, block, tile);
                      }
                    });
  }

 private:
  /// Pixels of a line in a tile of at most `mr`, all but the last of the same width.
  int64_t even_width(int64_t mr) const {
    const int64_t tiles = std::max<int64_t>((g_.out_w + mr - 1) / mr, 1);
    return (g_.out_w + tiles - 1) / tiles;
  }

  /// All that is the same for the tiles.
  RowsTile<T> tile_of(const DepthBlock& block) const {
    RowsTile<T> tile{};
    tile.c = table_.c(0);
    tile.a = table_.a(0);
    tile.b_row = kernels_.nr;
    tile.b_panel = by_two_panels_ ? block.depth() * kernels_.nr : 0;
    tile.which = table_.active(0) + block.first;
    tile.segments = block.segments;
    tile.length = block.length;
    tile.accumulate = &block != &packed_.blocks().front();
    tile.relu = &block == &packed_.blocks().back() && args_.relu;
    tile.a_row = g_.stride_w * g_.in_channels;
    return tile;
  }

  /// One output line. The weights are few: all panels of a tile, one after the other.
  void multiply_line(int64_t line, const DepthBlock& block, RowsTile<T>& tile) const {
    const TapSource<T>& source = images_.source();
    const bool with_bias = &block == &packed_.blocks().back() && args_.bias != nullptr;
    const T* const bias = with_bias ? static_cast<const T*>(args_.bias) : nullptr;
    const int64_t row = line / g_.out_h * source.h + line % g_.out_h * g_.stride_h;
    const T* const b = packed_.panel(block, 0) - block.first * block.length * tile.b_row;
    const bool fetches = line + 1 < g_.batch * g_.out_h;
    for (int64_t j = 0; j < g_.out_w; j += tile_w_) {
      tile.a_offset = row * source.w * source.channels + j * tile.a_row + block.offset;
      tile.rows = std::min(tile_w_, g_.out_w - j);
      if (fetches)
        fetch_to_write(tile.c[0] + ((line + 1) * g_.out_w + j) * g_.out_channels,
                       tile.rows * g_.out_channels);
      tile.b = b;
      for (int64_t o = 0; o < g_.out_channels; o += nr_, tile.b += block.depth() * nr_) {
        tile.bias = bias != nullptr ? bias + o : nullptr;
        tile.c_offset = (line * g_.out_w + j) * g_.out_channels + o;
        tile.cols = std::min(nr_, g_.out_channels - o);
        kernels_.rows_tile(tile);
      }
    }
  }

  const Conv2dForwardArgs& args_;
  const Conv2dGeometry& g_;
  const GemmKernels<T>& kernels_ = gemm_kernels<T>();
  /// Two panels at a time where all have a second: pixels are written whole.
  bool by_two_panels_ = g_.out_channels % (2 * kernels_.nr) == 0;
  int64_t nr_ = by_two_panels_ ? 2 * kernels_.nr : kernels_.nr;
  int64_t tile_w_ = even_width(by_two_panels_ ? kernels_.mr / 2 : kernels_.mr);
  PaddedImages<T> images_;
  PackedMatrix<T> packed_;
  TileTable<T> table_;
};

}  // namespace

template <class T>
void conv2d_forward_padded(const Conv2dForwardArgs& args) {
  PaddedForward<T>(args).run();
}

template void conv2d_forward_padded<float>(const Conv2dForwardArgs&);
template void conv2d_forward_padded<double>(const Conv2dForwardArgs&);

}  // namespace heddle::cpu
