// dw and db of conv2d in bfloat16, by products of pairs (kernels/host/pair_product.h). The sums run
// over pixels, and the two terms of a pair are the same pixel of two images: so a pair of images is
// packed once, its padding written out, and serves all taps wherever they fall. Pairs of images are
// cut into parts whose number depends on the sizes alone; partial sums are added in order.
// Deterministic. Sums are float32.
#include "heddle/kernels/conv2d_weight_pairs.h"

#include <algorithm>
#include <bit>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/column_sums.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/pair_product.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle {
namespace {

using cpu::Pair;
using cpu::Scratch;

constexpr int64_t kPartsBytes = 8 << 20;   // partial sums of all parts
constexpr int64_t kPieces = 8;             // pieces of work aimed at
constexpr int64_t kBlockBytes = 64 << 10;  // of packed dy that all taps use at a time

template <class T>
int64_t bytes_of(int64_t n) {
  return n * static_cast<int64_t>(sizeof(T));
}

int64_t taps_of(const Conv2dGeometry& g) { return g.kernel_h * g.kernel_w; }
int64_t dw_size(const Conv2dGeometry& g) { return g.out_channels * taps_of(g) * g.in_channels; }

/// Parts of the pairs of images, each with partial sums of its own, times ranges of output
/// channels.
struct Cut {
  int64_t parts = 1, ranges = 1, range = 0;
};

Cut choose_cut(const Conv2dGeometry& g) {
  const int64_t most =
      std::min({kPieces, kPartsBytes / bytes_of<float>(dw_size(g)), ceil_div(g.batch, 2)});
  Cut cut;
  while (cut.parts * 2 <= most) cut.parts *= 2;
  const int64_t tiles = ceil_div(g.out_channels, cpu::kPairRows);
  cut.range = ceil_div(tiles, kPieces / cut.parts) * cpu::kPairRows;
  cut.ranges = ceil_div(g.out_channels, cut.range);
  return cut;
}

/// db += the sum over pixels of both terms of dy's pairs (pixels, n).
void sum_pairs(float* db, const Pair* dy, int64_t pixels, int64_t n) {
  cpu::vectorized(
      [](float* sums, const Pair* pairs, int64_t n_pixels, int64_t count) HEDDLE_VECTOR_LOOP {
        for (int64_t p = 0; p < n_pixels; ++p)
          for (int64_t i = 0; i < count; ++i)
            sums[i] += std::bit_cast<float>(pairs[p * count + i] << 16) +
                       std::bit_cast<float>(pairs[p * count + i] & 0xFFFF0000U);
      },
      db, dy, pixels, n);
}

/// The sums of output channels begin .. end - 1 over some pairs of images.
class PartSums {
 public:
  PartSums(const Conv2dBackwardWeightArgs& args, int64_t begin, int64_t end, float* dw, float* db)
      : args_(args),
        g_(args.geometry),
        begin_(begin),
        n_(end - begin),
        dw_(dw),
        db_(db),
        padded_w_(g_.in_w + 2 * g_.pad_w),
        x_size_((g_.in_h + 2 * g_.pad_h) * padded_w_ * g_.in_channels),
        x_(bytes_of<Pair>(x_size_)),
        dy_(bytes_of<Pair>(g_.out_h * g_.out_w * n_)) {
    std::fill_n(x_.as<Pair>(), x_size_, Pair{0});  // the padding stays so
    if (db_ != nullptr) std::fill_n(db_ + begin_, n_, 0.0F);
  }

  /// Images 2 * pair and 2 * pair + 1.
  void add(int64_t pair, bool first) {
    const bool alone = 2 * pair + 1 == g_.batch;
    pack_x(pair, alone);
    pack_dy(pair, alone);
    if (db_ != nullptr) sum_pairs(db_ + begin_, dy_.as<Pair>(), g_.out_h * g_.out_w, n_);
    const int64_t block =
        std::clamp<int64_t>(kBlockBytes / bytes_of<Pair>(g_.out_w * n_), 1, g_.out_h);
    for (int64_t row = 0; row < g_.out_h; row += block)
      for (int64_t tap = 0; tap < taps_of(g_); ++tap)
        add_tap(tap, row, std::min(block, g_.out_h - row), !first || row > 0);
  }

 private:
  void pack_x(int64_t pair, bool alone) {
    const int64_t row_size = g_.in_w * g_.in_channels;
    const int64_t image = g_.in_h * row_size;
    const auto* even = static_cast<const BFloat16*>(args_.x) + 2 * pair * image;
    for (int64_t row = 0; row < g_.in_h; ++row, even += row_size)
      cpu::pack_pairs(x_.as<Pair>() + ((row + g_.pad_h) * padded_w_ + g_.pad_w) * g_.in_channels,
                      even, alone ? nullptr : even + image, row_size);
  }

  void pack_dy(int64_t pair, bool alone) {
    const int64_t pixels = g_.out_h * g_.out_w;
    const int64_t image = pixels * g_.out_channels;
    const auto* even = static_cast<const BFloat16*>(args_.dy) + 2 * pair * image + begin_;
    const auto* odd = alone ? nullptr : even + image;
    if (n_ == g_.out_channels) return cpu::pack_pairs(dy_.as<Pair>(), even, odd, image);
    for (int64_t p = 0; p < pixels; ++p)
      cpu::pack_pairs(dy_.as<Pair>() + p * n_, even + p * g_.out_channels,
                      alone ? nullptr : odd + p * g_.out_channels, n_);
  }

  void add_tap(int64_t tap, int64_t row, int64_t n_rows, bool accumulate) {
    const int64_t channels = g_.in_channels;
    const int64_t y = row * g_.stride_h + tap / g_.kernel_w * g_.dilation_h;
    const int64_t x = tap % g_.kernel_w * g_.dilation_w;
    cpu::PairTile tile{};
    tile.c_row = taps_of(g_) * channels;
    tile.a_pair = n_;
    tile.a_segment = g_.out_w * n_;
    tile.b_pair = g_.stride_w * channels;
    tile.b_segment = g_.stride_h * padded_w_ * channels;
    tile.segments = n_rows;
    tile.length = g_.out_w;
    tile.accumulate = accumulate;
    const int64_t tiles = ceil_div(n_, cpu::kPairRows);
    const int64_t step = ceil_div(n_, tiles);  // of even height
    for (int64_t col = 0; col < channels; col += cpu::kPairCols) {
      tile.b = x_.as<Pair>() + (y * padded_w_ + x) * channels + col;
      tile.cols = std::min(cpu::kPairCols, channels - col);
      for (int64_t o = 0; o < n_; o += step) {
        tile.c = dw_ + ((begin_ + o) * taps_of(g_) + tap) * channels + col;
        tile.a = dy_.as<Pair>() + row * g_.out_w * n_ + o;
        tile.rows = std::min(step, n_ - o);
        cpu::multiply_pairs(tile);
      }
    }
  }

  const Conv2dBackwardWeightArgs& args_;
  const Conv2dGeometry& g_;
  int64_t begin_, n_;
  float* dw_;
  float* db_;
  int64_t padded_w_, x_size_;
  Scratch x_, dy_;
};

}  // namespace

bool cpu::wants_weight_by_pairs(const Conv2dGeometry& g) {
  return g.dtype == DType::kBFloat16 && g.groups == 1 && 2 * g.in_channels >= kPairCols &&
         g.batch * g.out_h * g.out_w * g.out_channels > 0 && has_bfloat16_units();
}

void cpu::conv2d_weight_by_pairs(const Conv2dBackwardWeightArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  const Cut cut = choose_cut(g);
  const int64_t pairs = ceil_div(g.batch, 2);
  const Scratch dw(bytes_of<float>(cut.parts * dw_size(g)));
  const Scratch db(bytes_of<float>(cut.parts * g.out_channels));
  parallel_for(cut.parts * cut.ranges, [&](int64_t piece) {
    const int64_t part = piece / cut.ranges;
    const int64_t begin = piece % cut.ranges * cut.range;
    float* const sums = dw.as<float>() + part * dw_size(g);
    float* const db_sums = args.db == nullptr ? nullptr : db.as<float>() + part * g.out_channels;
    PartSums part_sums(args, begin, std::min(begin + cut.range, g.out_channels), sums, db_sums);
    const int64_t first = part * pairs / cut.parts;
    const int64_t last = (part + 1) * pairs / cut.parts;
    for (int64_t pair = first; pair < last; ++pair) part_sums.add(pair, pair == first);
  });
  add_parts(static_cast<BFloat16*>(args.dw), dw.as<const float>(), dw_size(g), cut.parts);
  if (args.db != nullptr)
    add_parts(static_cast<BFloat16*>(args.db), db.as<const float>(), g.out_channels, cut.parts);
}

}  // namespace heddle
