// y = conv(x, w) + b and dx, as indirect matrix products: a table of pointers to the rows of pixels
// that each output pixel reads, a shared row of zeros for the padding, no unfolded copy of the
// image (Dukhan 2019, "The Indirect Convolution Algorithm"). dx is the same product with the
// weights turned; with a stride it falls into classes of pixels that meet the same taps. The weight
// gradient is in conv2d_weight.cpp. Sums are kept in the type of the operands, 16-bit floats in
// float32 through copies (correct, slow). Deterministic.
#include "heddle/kernels/conv2d.h"

#include <algorithm>
#include <optional>

#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/images.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/widen.h"

namespace heddle {
namespace {

using cpu::DepthBlock;
using cpu::PackedMatrix;
using cpu::PaddedImages;
using cpu::RowsEpilogue;
using cpu::RowTable;
using cpu::Scratch;
using cpu::Tap;
using cpu::TapSource;

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

/// Pointers for the pixels `begin` .. `end` of all images' grids, in tiles of mr.
template <class T>
void fill_table(const PixelGrid<T>& grid, const TapSource<T>& source, const T* zeros, int64_t begin,
                int64_t mr, const RowTable<T>& table) {
  for (int64_t r = 0; r < table.rows; ++r) {
    const int64_t pixel = begin + r;
    const int64_t j = pixel % grid.n_w;
    const int64_t i = pixel / grid.n_w % grid.n_h;
    const int64_t n = pixel / (grid.n_w * grid.n_h);
    table.c[r] = grid.at(n, i, j);
    const T** a = table.a + (r - r % mr) * table.segments + r % mr;
    const T* image = source.data + n * source.h * source.w * source.channels;
    for (const Tap& tap : source.taps) {
      const int64_t row = i * source.step_h + tap.row;
      const int64_t col = j * source.step_w + tap.col;
      const bool inside = row >= 0 && row < source.h && col >= 0 && col < source.w;
      *a = inside ? image + (row * source.w + col) * source.channels : zeros;
      a += mr;
    }
  }
}

/// All pixels of the grid times b, the pixels shared out over threads.
template <class T>
void multiply_pixels(int64_t batch, const PixelGrid<T>& grid, const TapSource<T>& source,
                     const PackedMatrix<T>& b, const RowsEpilogue<T>& epilogue) {
  const int64_t mr = cpu::gemm_kernels<T>().mr;
  const int64_t n_taps = static_cast<int64_t>(source.taps.size());
  const int64_t pixels = batch * grid.n_h * grid.n_w;
  const int64_t tiles = (pixels + mr - 1) / mr;
  const int64_t work = pixels * (b.blocks().back().depth_before + 1) * b.cols();
  int64_t pieces = std::max(pixels / kRowsPerPiece, std::min<int64_t>(16, work / kMinPiece));
  pieces = std::clamp<int64_t>((pieces + 3) / 4 * 4, 1, std::max<int64_t>(tiles, 1));
  const int64_t zero_bytes = source.channels * static_cast<int64_t>(sizeof(T));
  const Scratch zeros(zero_bytes);
  std::fill_n(zeros.as<char>(), zero_bytes, char{0});
  parallel_for(pieces, [&](int64_t piece) {
    const int64_t begin = piece * tiles / pieces * mr;
    const int64_t end = std::min((piece + 1) * tiles / pieces * mr, pixels);
    const int64_t rows = (end - begin + mr - 1) / mr * mr;
    const Scratch pointers(rows * (n_taps + 1) * static_cast<int64_t>(sizeof(T*)));
    const RowTable<T> table{end - begin, n_taps, pointers.as<T*>(), pointers.as<const T*>() + rows};
    fill_table(grid, source, zeros.as<const T>(), begin, mr, table);
    cpu::multiply_rows(table, b, epilogue);
  });
}

/// Weights of one group for y = x w^T: (taps * length, out channels).
template <class T>
void pack_forward(const PackedMatrix<T>& packed, const T* w, int64_t n_taps, int64_t length) {
  const cpu::GemmKernels<T>& kernels = cpu::gemm_kernels<T>();
  parallel_for(packed.panels(), [&](int64_t panel) {
    const int64_t o = panel * kernels.nr;
    const int64_t cols = std::min(kernels.nr, packed.cols() - o);
    for (const DepthBlock& block : packed.blocks()) {
      T* out = packed.panel(block, panel);
      for (int64_t tap = block.first; tap < block.first + block.segments; ++tap) {
        kernels.pack_transposed(out, w + (o * n_taps + tap) * length + block.offset,
                                n_taps * length, cols, block.length);
        out += block.length * kernels.nr;
      }
    }
  });
}

template <class T>
void forward(const Conv2dForwardArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  const T* x = static_cast<const T*>(args.x);
  const PixelGrid<T> grid{
      static_cast<T*>(args.y), g.out_h, g.out_w, g.out_channels, 0, 0, 1, 1, g.out_h, g.out_w};
  const int64_t group_in = g.in_channels / g.groups;
  const int64_t group_out = g.out_channels / g.groups;
  std::optional<PaddedImages<T>> padded;
  if (cpu::wants_padded_images(g)) padded.emplace(g, x);
  const TapSource<T> source = padded ? padded->source() : cpu::plain_source(g, x);
  const int64_t n_taps = static_cast<int64_t>(source.taps.size());
  const int64_t length = g.kernel_h * g.kernel_w / n_taps * group_in;
  const PackedMatrix<T> packed(n_taps, length, group_out);
  for (int64_t group = 0; group < g.groups; ++group) {
    const int64_t o = group * group_out;
    pack_forward(packed, static_cast<const T*>(args.w) + o * n_taps * length, n_taps, length);
    const T* bias = args.bias == nullptr ? nullptr : static_cast<const T*>(args.bias) + o;
    multiply_pixels(g.batch, grid, source, packed,
                    RowsEpilogue<T>{bias, args.relu, group * group_in, o});
  }
}

/// Weights of one group and some taps for dx = dy w: (taps * out channels, in channels).
template <class T>
void pack_backward(const PackedMatrix<T>& packed, const T* w, const std::vector<Tap>& taps,
                   int64_t filter_size, int64_t in_channels) {
  const cpu::GemmKernels<T>& kernels = cpu::gemm_kernels<T>();
  parallel_for(packed.panels(), [&](int64_t panel) {
    const int64_t c = panel * kernels.nr;
    const int64_t cols = std::min(kernels.nr, packed.cols() - c);
    for (const DepthBlock& block : packed.blocks()) {
      T* out = packed.panel(block, panel);
      for (int64_t i = block.first; i < block.first + block.segments; ++i) {
        const int64_t tap = taps[static_cast<size_t>(i)].index;
        kernels.pack_rows(out, w + (block.offset * filter_size + tap) * in_channels + c,
                          filter_size * in_channels, cols, block.length);
        out += block.length * kernels.nr;
      }
    }
  });
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
  const int64_t group_in = g.in_channels / g.groups;
  const int64_t group_out = g.out_channels / g.groups;
  const int64_t filter_size = g.kernel_h * g.kernel_w;
  const PackedMatrix<T> packed(static_cast<int64_t>(source.taps.size()), group_out, group_in);
  for (int64_t group = 0; group < g.groups; ++group) {
    const T* w = static_cast<const T*>(args.w) + group * group_out * filter_size * group_in;
    pack_backward(packed, w, source.taps, filter_size, group_in);
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
