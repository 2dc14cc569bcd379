// dw and db of conv2d. dw[o][tap][c] = sum over output pixels of dy[pixel][o] * x[pixel(tap)][c]: a
// product whose operands both lie in memory as the micro-kernel wants them, so nothing is packed.
// The vector runs over input channels, or over output channels where that wastes fewer lanes (the
// first layer's three). Pixels are cut into parts whose number depends on the sizes alone; partial
// sums are added in order. Deterministic. Sums are kept in the type of the operands.
// 16-bit floats go through float32 copies, or by pairs (kernels/conv2d_weight_pairs.cpp).
#include <algorithm>
#include <optional>

#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/conv2d_weight_pairs.h"
#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/column_sums.h"
#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/images.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/outer_product.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/widen.h"

namespace heddle {
namespace {

using cpu::PaddedImages;
using cpu::Scratch;
using cpu::Tap;
using cpu::TapSource;

constexpr int64_t kPixelBlock = 256;            // pixels whose rows stay in the second-level cache
constexpr int64_t kBlockBytes = 32 << 10;       // of dy that all taps use: in the first-level cache
constexpr int64_t kPartsBytes = 8 << 20;        // partial sums of all parts
constexpr int64_t kMinPart = int64_t{1} << 19;  // multiply-adds that are worth a part
constexpr int64_t kPieces = 16;                 // pieces of work aimed at

/// How the work is cut: parts of the pixels, each with partial sums of its own, times ranges of
/// output channels.
struct Cut {
  int64_t parts, ranges, range;
};

template <class T>
struct Problem {
  const Conv2dGeometry& g;
  const TapSource<T>& source;
  const T* dy;
  int64_t length;  // values of x that a tap reads: the channels of a group, or a filter row
  int64_t group_out;
  bool padded;        // all taps lie inside of the images
  bool over_outputs;  // the vector runs over output channels; sums lie (tap, length, out)

  /// Pixels that are worked on at a time.
  int64_t block() const {
    if (!over_outputs) return kPixelBlock;
    const int64_t pixel = g.out_channels * static_cast<int64_t>(sizeof(T));
    return std::clamp<int64_t>(kBlockBytes / pixel, 32, kPixelBlock);
  }
  /// From what a pixel's first tap reads to what another reads.
  int64_t distance(int64_t tap) const {
    const Tap& to = source.taps[static_cast<size_t>(tap)];
    const Tap& from = source.taps.front();
    return ((to.row - from.row) * source.w + to.col - from.col) * source.channels;
  }
  int64_t n_taps() const { return static_cast<int64_t>(source.taps.size()); }
  int64_t pixels() const { return g.batch * g.out_h * g.out_w; }
  int64_t dw_size() const { return g.out_channels * n_taps() * length; }
};

template <class T>
Cut choose_cut(const Problem<T>& p) {
  const int64_t dw_bytes = std::max<int64_t>(p.dw_size() * static_cast<int64_t>(sizeof(T)), 1);
  const int64_t worth = p.pixels() * p.dw_size() / kMinPart;
  const int64_t most =
      std::min({kPieces, kPartsBytes / dw_bytes, worth, ceil_div(p.pixels(), p.block())});
  Cut cut{1, 1, p.group_out};
  while (cut.parts * 2 <= most) cut.parts *= 2;
  const int64_t nr = cpu::gemm_kernels<T>().nr;
  if (p.g.groups == 1 && worth > cut.parts) {
    const int64_t wanted = std::min(kPieces, worth) / cut.parts;
    cut.range = std::max(ceil_div(ceil_div(p.group_out, wanted), nr) * nr, nr);
    cut.ranges = ceil_div(p.group_out, cut.range);
  }
  return cut;
}

/// The operands' rows for one block of pixels and one tap.
template <class T>
struct RowPairs {
  const T** x;
  const T** dy;
  int64_t count = 0;
  int64_t x_offset = 0;  // of the tap from what x points to
};

/// Pixels `begin` .. `end` whose tap lies inside of the image.
template <class T>
void find_pairs(const Problem<T>& p, const Tap& tap, int64_t begin, int64_t end,
                RowPairs<T>& pairs) {
  const Conv2dGeometry& g = p.g;
  const TapSource<T>& s = p.source;
  pairs.count = 0;
  for (int64_t pixel = begin; pixel < end;) {
    const int64_t first = pixel % g.out_w;
    const int64_t line = pixel / g.out_w;
    const int64_t last = std::min(g.out_w, first + end - pixel);
    pixel += last - first;
    const int64_t row = line % g.out_h * s.step_h + tap.row;
    if (row < 0 || row >= s.h) continue;
    const T* x = s.data + (line / g.out_h * s.h + row) * s.w * s.channels;
    const T* dy = p.dy + line * g.out_w * g.out_channels;
    for (int64_t j = first; j < last; ++j) {
      const int64_t col = j * s.step_w + tap.col;
      if (col < 0 || col >= s.w) continue;
      pairs.x[pairs.count] = x + col * s.channels;
      pairs.dy[pairs.count] = dy + j * g.out_channels;
      ++pairs.count;
    }
  }
}

/// db[0 .. n) += the sum of n columns of `rows` rows of dy.
template <class T>
void add_rows(T* db, const T* dy, int64_t rows, int64_t stride, int64_t n) {
  cpu::vectorized(
      [](T* sums, const T* values, int64_t n_rows, int64_t row_stride, int64_t count)
          HEDDLE_VECTOR_LOOP {
            for (int64_t r = 0; r < n_rows; ++r)
              for (int64_t i = 0; i < count; ++i) sums[i] += values[r * row_stride + i];
          },
      db, dy, rows, stride, n);
}

/// One part of the pixels and one range of output channels.
template <class T>
class PartSums {
 public:
  PartSums(const Problem<T>& problem, int64_t o_begin, int64_t o_end, T* dw, T* db)
      : p_(problem),
        o_begin_(o_begin),
        o_end_(o_end),
        dw_(dw),
        db_(db),
        pointers_(3 * kPixelBlock * static_cast<int64_t>(sizeof(T*))),
        copies_(kPixelBlock * cpu::gemm_kernels<T>().nr * static_cast<int64_t>(sizeof(T))) {
    if (db != nullptr) std::fill(db + o_begin, db + o_end, T(0));
  }

  /// Adds the pixels begin .. end; `first` block of the part: the sums are written afresh.
  void add(int64_t begin, int64_t end, bool first) {
    if (db_ != nullptr)
      add_rows(db_ + o_begin_, p_.dy + begin * p_.g.out_channels + o_begin_, end - begin,
               p_.g.out_channels, o_end_ - o_begin_);
    RowPairs<T> pairs{pointers_.as<const T*>(), pointers_.as<const T*>() + kPixelBlock};
    for (int64_t tap = 0; tap < p_.n_taps(); ++tap) {
      if (!p_.padded || tap == 0)
        find_pairs(p_, p_.source.taps[static_cast<size_t>(tap)], begin, end, pairs);
      pairs.x_offset = p_.padded ? p_.distance(tap) : 0;
      for (int64_t group = 0; group < p_.g.groups; ++group) add_tap(pairs, tap, group, !first);
    }
  }

 private:
  void add_tap(const RowPairs<T>& pairs, int64_t tap, int64_t group, bool accumulate) {
    // With one group the range is o_begin_ .. o_end_; with several it is the group.
    const int64_t o = p_.g.groups == 1 ? o_begin_ : group * p_.group_out;
    const int64_t n_o = p_.g.groups == 1 ? o_end_ - o_begin_ : p_.group_out;
    const int64_t c = pairs.x_offset + (p_.g.groups == 1 ? 0 : group * p_.length);
    T* const copies = copies_.as<T>();
    const T** const pointers = pointers_.as<const T*>() + 2 * kPixelBlock;
    if (p_.over_outputs) {
      const int64_t group_start = group * p_.n_taps() * p_.length * p_.group_out;
      T* sums = dw_ + group_start + tap * p_.length * p_.group_out + o - group * p_.group_out;
      cpu::add_outer<T>(
          {sums, p_.group_out, pairs.x, pairs.dy, c, o, pairs.count, p_.length, n_o, accumulate},
          copies, pointers);
    } else {
      T* sums = dw_ + (o * p_.n_taps() + tap) * p_.length;
      cpu::add_outer<T>({sums, p_.n_taps() * p_.length, pairs.dy, pairs.x, o, c, pairs.count, n_o,
                         p_.length, accumulate},
                        copies, pointers);
    }
  }

  const Problem<T>& p_;
  int64_t o_begin_, o_end_;
  T* dw_;
  T* db_;
  Scratch pointers_, copies_;
};

/// dw (out, taps * length) of each group = sums (taps * length, out).
template <class T>
void turn(T* dw, const T* sums, int64_t groups, int64_t group_out, int64_t depth) {
  parallel_ranges(groups * group_out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* column = sums + o / group_out * group_out * depth + o % group_out;
      for (int64_t k = 0; k < depth; ++k) dw[o * depth + k] = column[k * group_out];
    }
  });
}

template <class T>
void run_cut(const Problem<T>& p, const Cut& cut, T* parts, T* db_parts) {
  const int64_t blocks = ceil_div(p.pixels(), p.block());
  parallel_for(cut.parts * cut.ranges, [&](int64_t piece) {
    const int64_t part = piece / cut.ranges;
    const int64_t range = piece % cut.ranges;
    const int64_t o_end =
        p.g.groups == 1 ? std::min(p.group_out, (range + 1) * cut.range) : p.g.out_channels;
    T* const db = db_parts == nullptr ? nullptr : db_parts + part * p.g.out_channels;
    PartSums<T> sums(p, range * cut.range, o_end, parts + part * p.dw_size(), db);
    const int64_t first = part * blocks / cut.parts;
    const int64_t last = (part + 1) * blocks / cut.parts;
    for (int64_t block = first; block < last; ++block)
      sums.add(block * p.block(), std::min((block + 1) * p.block(), p.pixels()), block == first);
  });
}

template <class T>
void backward_weight(const Conv2dBackwardWeightArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  T* const dw = static_cast<T*>(args.dw);
  T* const db = static_cast<T*>(args.db);
  const T* x = static_cast<const T*>(args.x);
  std::optional<PaddedImages<T>> padded;
  if (cpu::wants_padded_images(g)) padded.emplace(g, x);
  const TapSource<T> source = padded ? padded->source() : cpu::plain_source(g, x);
  const int64_t group_in = g.in_channels / g.groups;
  const int64_t length =
      g.kernel_h * g.kernel_w / static_cast<int64_t>(source.taps.size()) * group_in;
  const int64_t group_out = g.out_channels / g.groups;
  const int64_t nr = cpu::gemm_kernels<T>().nr;
  const auto lanes = [nr](int64_t n) { return ceil_div(n, nr) * nr; };
  const bool over_outputs = lanes(group_out) * length < lanes(length) * group_out;
  const Problem<T> p{g,           source,    static_cast<const T*>(args.dy),
                     length,      group_out, padded.has_value(),
                     over_outputs};
  if (p.pixels() == 0) {
    std::fill_n(dw, p.dw_size(), T(0));
    if (db != nullptr) std::fill_n(db, g.out_channels, T(0));
    return;
  }
  const Cut cut = choose_cut(p);
  const bool in_place = cut.parts == 1 && !over_outputs;
  const auto bytes = [](int64_t n) { return n * static_cast<int64_t>(sizeof(T)); };
  const Scratch parts(in_place ? 0 : bytes(cut.parts * p.dw_size()));
  const Scratch db_parts(db == nullptr ? 0 : bytes(cut.parts * g.out_channels));
  run_cut(p, cut, in_place ? dw : parts.as<T>(), db == nullptr ? nullptr : db_parts.as<T>());
  if (db != nullptr) cpu::add_parts(db, db_parts.as<const T>(), g.out_channels, cut.parts);
  if (in_place) return;
  T* const total = over_outputs ? parts.as<T>() : dw;
  if (cut.parts > 1 || !over_outputs)
    cpu::add_parts(total, parts.as<const T>(), p.dw_size(), cut.parts);
  if (over_outputs) turn(dw, total, g.groups, group_out, p.n_taps() * length);
}

}  // namespace

void cpu::conv2d_backward_weight(const Conv2dBackwardWeightArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  if (g.dtype == DType::kFloat64) return backward_weight<double>(args);
  if (!is_16_bit(g.dtype)) return backward_weight<float>(args);
  if (wants_weight_by_pairs(g)) return conv2d_weight_by_pairs(args);
  const int64_t filter = g.kernel_h * g.kernel_w * (g.in_channels / g.groups);
  const Widened x(args.x, g.batch * g.in_h * g.in_w * g.in_channels, g.dtype);
  const Widened dy(args.dy, g.batch * g.out_h * g.out_w * g.out_channels, g.dtype);
  const Narrowed dw(args.dw, g.out_channels * filter, g.dtype);
  const Narrowed db(args.db, g.out_channels, g.dtype);
  backward_weight<float>({g, dw.data(), db.data(), x.data(), dy.data()});
  dw.write();
  db.write();
}

}  // namespace heddle
