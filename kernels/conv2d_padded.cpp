// y = conv(x, w) + b of few input channels. Each piece of work copies the lines that it reads with
// their margins written out: then the taps of a filter row are one segment of the sums, the pixels
// of an output line lie at even distances, and a line is one call of the micro-kernel. Filter rows
// above and below the image are left out. Sums are kept in T. Deterministic.
#include "heddle/kernels/conv2d_padded.h"

#include <algorithm>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/filters.h"
#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kMinPiece = int64_t{1} << 20;  // multiply-adds that are worth a piece of work
constexpr int64_t kLinesBytes = 16 << 10;        // of lines that stay in a first-level cache

template <class T>
class PaddedForward {
 public:
  explicit PaddedForward(const Conv2dForwardArgs& args)
      : args_(args), packed_(g_.kernel_h, g_.kernel_w * g_.in_channels, g_.out_channels) {
    pack_filters(packed_, static_cast<const T*>(args.w), g_.kernel_h, g_.kernel_w * g_.in_channels);
  }

  void run() const {
    const int64_t most =
        std::max<int64_t>(kLinesBytes / bytes(std::max<int64_t>(line_ * g_.stride_h, 1)), 1);
    const int64_t work = std::max<int64_t>(g_.out_w * packed_.depth() * g_.out_channels, 1);
    const int64_t wanted = std::min(g_.out_h, std::max(most, ceil_div(kMinPiece, work)));
    const int64_t pieces = wanted == 0 ? 0 : ceil_div(g_.out_h, wanted);  // of an image
    parallel_for(g_.batch * pieces, [&](int64_t i) {
      const int64_t piece = i % pieces;
      run_lines(i / pieces, g_.out_h * piece / pieces, g_.out_h * (piece + 1) / pieces);
    });
  }

 private:
  static int64_t bytes(int64_t n) { return n * static_cast<int64_t>(sizeof(T)); }

  /// Row of the image that a filter row meets.
  int64_t row_of(int64_t line, int64_t tap) const {
    return line * g_.stride_h - g_.pad_h + tap * g_.dilation_h;
  }

  /// Output lines begin .. end of an image.
  void run_lines(int64_t image, int64_t begin, int64_t end) const {
    const int64_t first = std::clamp<int64_t>(row_of(begin, 0), 0, g_.in_h);
    const int64_t last = std::clamp(row_of(end - 1, g_.kernel_h - 1) + 1, first, g_.in_h);
    const Scratch lines(bytes((last - first) * line_));
    for (int64_t row = first; row < last; ++row)
      copy_line(lines.as<T>() + (row - first) * line_, image * g_.in_h + row);
    for (const DepthBlock& block : packed_.blocks()) {
      DenseTile<T> tile = tile_of(block);
      for (int64_t line = begin; line < end; ++line) {
        int64_t tap = block.first;
        int64_t end_tap = tap + block.segments;
        while (tap < end_tap && row_of(line, tap) < 0) ++tap;
        while (tap < end_tap && row_of(line, end_tap - 1) >= g_.in_h) --end_tap;
        tile.segments = end_tap - tap;
        tile.a = lines.as<T>() + block.offset;
        if (tile.segments > 0) tile.a += (row_of(line, tap) - first) * line_;
        tile.b = packed_.panel(block, 0) + (tap - block.first) * block.length * tile.b_row;
        tile.c = static_cast<T*>(args_.y) + (image * g_.out_h + line) * g_.out_w * g_.out_channels;
        tile.c_ahead = line + 1 < end ? g_.out_w * g_.out_channels : 0;
        multiply_line(block, tile);
      }
    }
  }

  /// A row of the images between margins of zeros.
  void copy_line(T* line, int64_t row) const {
    const int64_t margin = g_.pad_w * g_.in_channels;
    const int64_t n = g_.in_w * g_.in_channels;
    std::fill_n(line, margin, T(0));
    std::copy_n(static_cast<const T*>(args_.x) + row * n, n, line + margin);
    std::fill_n(line + margin + n, margin, T(0));
  }

  /// All that is the same for the lines.
  DenseTile<T> tile_of(const DepthBlock& block) const {
    DenseTile<T> tile{};
    tile.c_row = g_.out_channels;
    tile.a_row = g_.stride_w * g_.in_channels;
    tile.a_segment = g_.dilation_h * line_;
    tile.b_row = kernels_.nr;
    tile.b_panel = by_two_panels_ ? block.depth() * kernels_.nr : 0;
    tile.length = block.length;
    tile.rows = even_height(g_.out_w, by_two_panels_ ? kernels_.mr / 2 : kernels_.mr);
    tile.accumulate = &block != &packed_.blocks().front();
    tile.relu = &block == &packed_.blocks().back() && args_.relu;
    return tile;
  }

  /// One output line, a panel of weights (or two) after the other.
  void multiply_line(const DepthBlock& block, DenseTile<T>& tile) const {
    const bool with_bias = &block == &packed_.blocks().back() && args_.bias != nullptr;
    for (int64_t o = 0; o < g_.out_channels; o += nr_) {
      tile.bias = with_bias ? static_cast<const T*>(args_.bias) + o : nullptr;
      tile.cols = std::min(nr_, g_.out_channels - o);
      multiply_down(tile, g_.out_w);
      tile.b += block.depth() * nr_;
      tile.c += nr_;
    }
  }

  const Conv2dForwardArgs& args_;
  const Conv2dGeometry& g_ = args_.geometry;
  const GemmKernels<T>& kernels_ = gemm_kernels<T>();
  /// Two panels at a time where all have a second: pixels are written whole.
  bool by_two_panels_ = g_.out_channels % (2 * kernels_.nr) == 0;
  int64_t nr_ = by_two_panels_ ? 2 * kernels_.nr : kernels_.nr;
  int64_t line_ = (g_.in_w + 2 * g_.pad_w) * g_.in_channels;  // with its margins
  PackedMatrix<T> packed_;
};

}  // namespace

template <class T>
void conv2d_forward_padded(const Conv2dForwardArgs& args) {
  PaddedForward<T>(args).run();
}

template void conv2d_forward_padded<float>(const Conv2dForwardArgs&);
template void conv2d_forward_padded<double>(const Conv2dForwardArgs&);

}  // namespace heddle::cpu
