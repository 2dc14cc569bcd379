// y = conv(x, w) + b and dx, as indirect matrix products: a table of pointers to the rows of pixels
// that each output pixel reads, a shared row of zeros for the padding, no unfolded copy of the
// image (Dukhan 2019, "The Indirect Convolution Algorithm"). dx is the same product with the
// weights turned; with a stride it falls into classes of pixels that meet the same taps. Few input
// channels go through conv2d_padded.cpp; the weight gradient is in conv2d_weight.cpp. Sums are kept
// in the type of the operands, 16-bit floats in float32 through copies (correct, slow).
// Deterministic.
#include "heddle/kernels/conv2d.h"

#include <algorithm>

#include "heddle/kernels/conv2d_padded.h"
#include "heddle/kernels/host/filters.h"
#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/images.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/widen.h"

namespace heddle {
namespace {

using cpu::PackedMatrix;
using cpu::RowsEpilogue;
using cpu::Scratch;
using cpu::Tap;
using cpu::TapSource;
using cpu::TileTable;

constexpr int64_t kMostRows = 16;       // at least every instruction set's mr
constexpr int64_t kRowsPerPiece = 192;  // pixels whose values stay in the second-level cache
constexpr int64_t kMinPiece = int64_t{1} << 19;  // multiply-adds that are worth a piece of work

/// Destination pixels (first_h + i * step_h, first_w + j * step_w) for i < n_h, j < n_w.
template <class T>
struct PixelGrid {
  T* data;
  int64_t h, w, channels;
  int64_t first_h, first_w, step_h, step_w, n_h, n_w;

  T* at(int64_t n, int64_t i, int64_t j) const {
    return data + ((n * h + first_h + i * step_h) * w + first_w + j * step_w) * channels;
  }
};

/// How the pixels of all images fall into tiles of at most mr. A tile is one place in several
/// images, so that a tap in the padding is zero in the whole tile and is left out; or, where the
/// batch is small, neighbours in one image.
struct Tiling {
  int64_t batch, n_h, n_w, mr;
  int64_t groups;  // of images
  int64_t tiles;

  bool by_place() const { return groups > 0; }
  int64_t pixels() const { return batch * n_h * n_w; }
};

Tiling make_tiling(int64_t batch, int64_t n_h, int64_t n_w, int64_t mr) {
  Tiling tiling{batch, n_h, n_w, mr, 0, 0};
  if (batch >= mr) {
    tiling.groups = (batch + mr - 1) / mr;
    tiling.tiles = tiling.groups * n_h * n_w;
  } else {
    tiling.tiles = (tiling.pixels() + mr - 1) / mr;
  }
  return tiling;
}

struct Pixel {
  int64_t n, i, j;
};

/// Writes the pixels of a tile; returns how many.
int64_t pixels_of(const Tiling& t, int64_t tile, Pixel* pixels) {
  if (t.by_place()) {
    const int64_t group = tile / (t.n_h * t.n_w);
    const int64_t place = tile % (t.n_h * t.n_w);
    const int64_t first = t.batch * group / t.groups;
    const int64_t rows = t.batch * (group + 1) / t.groups - first;
    const int64_t i = place / t.n_w;
    const int64_t j = place % t.n_w;
    for (int64_t r = 0; r < rows; ++r) pixels[r] = {first + r, i, j};
    return rows;
  }
  const int64_t first = tile * t.mr;
  const int64_t rows = std::min(t.mr, t.pixels() - first);
  for (int64_t r = 0; r < rows; ++r)
    pixels[r] = {(first + r) / (t.n_h * t.n_w), (first + r) / t.n_w % t.n_h, (first + r) % t.n_w};
  return rows;
}

/// Pointers of one tile.
template <class T>
void fill_tile(const PixelGrid<T>& grid, const TapSource<T>& source, const T* zeros,
               const Tiling& tiling, int64_t tile, const TileTable<T>& table, int64_t index) {
  Pixel pixels[kMostRows];
  const T* centre[kMostRows];
  const int64_t rows = pixels_of(tiling, tile, pixels);
  table.rows(index) = rows;
  for (int64_t r = 0; r < rows; ++r) {
    Pixel& p = pixels[r];
    table.c(index)[r] = grid.at(p.n, p.i, p.j);
    p.i *= source.step_h;
    p.j *= source.step_w;
    centre[r] = source.data + ((p.n * source.h + p.i) * source.w + p.j) * source.channels;
  }
  const T** a = table.a(index);
  int64_t n_active = 0;
  for (int64_t s = 0; s < table.segments(); ++s, a += tiling.mr) {
    const Tap& tap = source.taps[static_cast<size_t>(s)];
    const int64_t distance = (tap.row * source.w + tap.col) * source.channels;
    const auto inside = [&](int64_t r) {
      const int64_t row = pixels[r].i + tap.row;
      const int64_t col = pixels[r].j + tap.col;
      return row >= 0 && row < source.h && col >= 0 && col < source.w;
    };
    bool any = false;
    if (tiling.by_place() && inside(0)) {
      any = true;
      for (int64_t r = 0; r < rows; ++r) a[r] = centre[r] + distance;
    } else if (!tiling.by_place()) {
      for (int64_t r = 0; r < rows; ++r) {
        a[r] = inside(r) ? centre[r] + distance : zeros;
        any |= a[r] != zeros;
      }
    }
    table.active_before(index)[s] = n_active;
    table.active(index)[n_active] = s;
    n_active += any ? 1 : 0;
  }
  table.active_before(index)[table.segments()] = n_active;
}

/// All pixels of the grid times b, the pixels shared out over threads.
template <class T>
void multiply_pixels(int64_t batch, const PixelGrid<T>& grid, const TapSource<T>& source,
                     const PackedMatrix<T>& b, const RowsEpilogue<T>& epilogue) {
  const Tiling tiling = make_tiling(batch, grid.n_h, grid.n_w, cpu::gemm_kernels<T>().mr);
  const int64_t n_taps = static_cast<int64_t>(source.taps.size());
  const int64_t work = tiling.pixels() * b.depth() * b.cols();
  int64_t pieces =
      std::max(tiling.pixels() / kRowsPerPiece, std::min<int64_t>(16, work / kMinPiece));
  pieces = std::clamp<int64_t>((pieces + 3) / 4 * 4, 1, std::max<int64_t>(tiling.tiles, 1));
  const int64_t zero_bytes = source.channels * static_cast<int64_t>(sizeof(T));
  const Scratch zeros(zero_bytes);
  std::fill_n(zeros.as<char>(), zero_bytes, char{0});
  parallel_for(pieces, [&](int64_t piece) {
    const int64_t begin = piece * tiling.tiles / pieces;
    const int64_t end = (piece + 1) * tiling.tiles / pieces;
    const TileTable<T> table(end - begin, n_taps);
    for (int64_t tile = begin; tile < end; ++tile)
      fill_tile(grid, source, zeros.as<const T>(), tiling, tile, table, tile - begin);
    cpu::multiply_rows(table, b, epilogue);
  });
}

template <class T>
void forward(const Conv2dForwardArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  if (cpu::wants_padded_images(g)) return cpu::conv2d_forward_padded<T>(args);
  const T* x = static_cast<const T*>(args.x);
  const PixelGrid<T> grid{
      static_cast<T*>(args.y), g.out_h, g.out_w, g.out_channels, 0, 0, 1, 1, g.out_h, g.out_w};
  const int64_t group_in = g.in_channels / g.groups;
  const int64_t group_out = g.out_channels / g.groups;
  const TapSource<T> source = cpu::plain_source(g, x);
  const int64_t n_taps = g.kernel_h * g.kernel_w;
  const PackedMatrix<T> packed(n_taps, group_in, group_out);
  for (int64_t group = 0; group < g.groups; ++group) {
    const int64_t o = group * group_out;
    cpu::pack_filters(packed, static_cast<const T*>(args.w) + o * n_taps * group_in, n_taps,
                      group_in);
    const T* bias = args.bias == nullptr ? nullptr : static_cast<const T*>(args.bias) + o;
    multiply_pixels(g.batch, grid, source, packed,
                    RowsEpilogue<T>{bias, args.relu, group * group_in, o});
  }
}

/// The taps kernel position k (of `size`) with (k * dilation - pad - first) a multiple of the
/// stride reach input position `first` + i * stride from output position i + `shift`.
struct Reach {
  int64_t k, shift;
};
std::vector<Reach> reaching(int64_t first, int64_t size, int64_t stride, int64_t pad,
                            int64_t dilation) {
  std::vector<Reach> reach;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t distance = first + pad - k * dilation;
    if (distance % stride == 0) reach.push_back({k, distance / stride});
  }
  return reach;
}

/// Input pixels that no tap meets.
template <class T>
void clear_pixels(int64_t batch, const PixelGrid<T>& grid) {
  parallel_for(batch * grid.n_h, [&](int64_t line) {
    for (int64_t j = 0; j < grid.n_w; ++j)
      std::fill_n(grid.at(line / grid.n_h, line % grid.n_h, j), grid.channels, T(0));
  });
}

/// The input pixels (first_h + i * stride_h, first_w + j * stride_w): all meet the same taps.
template <class T>
void backward_data_class(const Conv2dBackwardDataArgs& args, int64_t first_h, int64_t first_w) {
  const Conv2dGeometry& g = args.geometry;
  const PixelGrid<T> grid{static_cast<T*>(args.dx),
                          g.in_h,
                          g.in_w,
                          g.in_channels,
                          first_h,
                          first_w,
                          g.stride_h,
                          g.stride_w,
                          (g.in_h - first_h + g.stride_h - 1) / g.stride_h,
                          (g.in_w - first_w + g.stride_w - 1) / g.stride_w};
  TapSource<T> source{static_cast<const T*>(args.dy), g.out_h, g.out_w, g.out_channels, 1, 1, {}};
  for (const Reach& row : reaching(first_h, g.kernel_h, g.stride_h, g.pad_h, g.dilation_h))
    for (const Reach& col : reaching(first_w, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w))
      source.taps.push_back({row.shift, col.shift, row.k * g.kernel_w + col.k});
  if (source.taps.empty()) return clear_pixels(g.batch, grid);
  const int64_t group_in = g.in_channels / g.groups;
  const int64_t group_out = g.out_channels / g.groups;
  const int64_t filter_size = g.kernel_h * g.kernel_w;
  const PackedMatrix<T> packed(static_cast<int64_t>(source.taps.size()), group_out, group_in);
  for (int64_t group = 0; group < g.groups; ++group) {
    const T* w = static_cast<const T*>(args.w) + group * group_out * filter_size * group_in;
    cpu::pack_turned_filters(packed, w, source.taps, filter_size, group_in);
    multiply_pixels(g.batch, grid, source, packed,
                    RowsEpilogue<T>{nullptr, false, group * group_out, group * group_in});
  }
}

template <class T>
void backward_data(const Conv2dBackwardDataArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  for (int64_t h = 0; h < std::min(g.stride_h, g.in_h); ++h)
    for (int64_t w = 0; w < std::min(g.stride_w, g.in_w); ++w) backward_data_class<T>(args, h, w);
}

int64_t input_size(const Conv2dGeometry& g) { return g.batch * g.in_h * g.in_w * g.in_channels; }
int64_t output_size(const Conv2dGeometry& g) {
  return g.batch * g.out_h * g.out_w * g.out_channels;
}
int64_t weight_size(const Conv2dGeometry& g) {
  return g.out_channels * g.kernel_h * g.kernel_w * (g.in_channels / g.groups);
}

}  // namespace

std::string Conv2dGeometry::key() const {
  return fmt::format("{} n{} c{} {}x{} o{} {}x{} k{}x{} s{}x{} p{}x{} d{}x{} g{}", dtype, batch,
                     in_channels, in_h, in_w, out_channels, out_h, out_w, kernel_h, kernel_w,
                     stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups);
}

std::string Conv2dForwardArgs::key() const {
  return fmt::format("conv2d_forward {}{}{}", geometry.key(), bias != nullptr ? " bias" : "",
                     relu ? " relu" : "");
}

std::string Conv2dBackwardDataArgs::key() const { return "conv2d_backward_data " + geometry.key(); }

std::string Conv2dBackwardWeightArgs::key() const {
  return fmt::format("conv2d_backward_weight {}{}", geometry.key(), db != nullptr ? " bias" : "");
}

void cpu::conv2d_forward(const Conv2dForwardArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  if (g.dtype == DType::kFloat64) return forward<double>(args);
  if (!is_16_bit(g.dtype)) return forward<float>(args);
  const Widened x(args.x, input_size(g), g.dtype);
  const Widened w(args.w, weight_size(g), g.dtype);
  const Widened bias(args.bias, g.out_channels, g.dtype);
  const Narrowed y(args.y, output_size(g), g.dtype);
  forward<float>({g, y.data(), x.data(), w.data(), bias.data(), args.relu});
  y.write();
}

void cpu::conv2d_backward_data(const Conv2dBackwardDataArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  if (g.dtype == DType::kFloat64) return backward_data<double>(args);
  if (!is_16_bit(g.dtype)) return backward_data<float>(args);
  const Widened dy(args.dy, output_size(g), g.dtype);
  const Widened w(args.w, weight_size(g), g.dtype);
  const Narrowed dx(args.dx, input_size(g), g.dtype);
  backward_data<float>({g, dx.data(), dy.data(), w.data()});
  dx.write();
}

}  // namespace heddle
