// Max and average pooling over channels-last images, y (N, H', W', C) of x (N, H, W, C). A piece is
// some rows of the result, the inner loop runs over channels. The gradients are in
// pool2d_backward.cpp. 16-bit floats are summed in float32 and rounded once. Deterministic.
#include "heddle/kernels/pool2d.h"

#include <algorithm>
#include <limits>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/pool2d.h"
#include "heddle/kernels/pool2d_windows.h"

namespace heddle {
namespace {

using cpu::PoolCompute;

/// n channels of one window.
template <class T, class Place, class N>
HEDDLE_INLINE void max_of_window(const Pool2dGeometry& g, const T* image, PoolRange rows,
                                 PoolRange cols, int64_t first_row, int64_t first_col, N n, T* y,
                                 Place* places) {
  using C = PoolCompute<T>;
  C best[cpu::kPoolChunk];
  int32_t place[cpu::kPoolChunk];
  const auto start =
      static_cast<int32_t>((rows.begin - first_row) * g.kernel_w + cols.begin - first_col);
  for (int64_t k = 0; k < n; ++k) best[k] = -std::numeric_limits<C>::infinity(), place[k] = start;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      const T* x = image + (row * g.in_w + col) * g.channels;
      const auto here = static_cast<int32_t>((row - first_row) * g.kernel_w + col - first_col);
      for (int64_t k = 0; k < n; ++k) {
        const C value = C(x[k]);
        const bool take = !(value <= best[k]) && best[k] == best[k];  // NaN is taken, and kept
        best[k] = take ? value : best[k];
        place[k] = take ? here : place[k];
      }
    }
  }
  for (int64_t k = 0; k < n; ++k) y[k] = T(best[k]);
  if (places != nullptr)
    for (int64_t k = 0; k < n; ++k) places[k] = static_cast<Place>(place[k]);
}

template <class T, class Place>
void max_forward(const MaxPool2dForwardArgs& args) {
  const int64_t row_elements = args.geometry.out_w * args.geometry.channels;
  const int64_t n_rows = args.geometry.batch * args.geometry.out_h;
  parallel_ranges(n_rows, cpu::pool_rows_per_piece(row_elements), [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* x, T* y, Place* places, Pool2dGeometry g, int64_t first, int64_t last)
            HEDDLE_VECTOR_LOOP {
              for (int64_t out_row = first; out_row < last; ++out_row) {
                const int64_t oh = out_row % g.out_h;
                const T* image = x + out_row / g.out_h * g.in_h * g.in_w * g.channels;
                const PoolRange rows = pool_rows(g, oh);
                for (int64_t ow = 0; ow < g.out_w; ++ow) {
                  const PoolRange cols = pool_cols(g, ow);
                  const int64_t at = (out_row * g.out_w + ow) * g.channels;
                  cpu::for_channel_chunks<T>(
                      g.channels, [&](int64_t c, auto n) __attribute__((always_inline)) {
                        max_of_window(g, image + c, rows, cols, oh * g.stride_h - g.pad_h,
                                      ow * g.stride_w - g.pad_w, n, y + at + c,
                                      places == nullptr ? nullptr : places + at + c);
                      });
                }
              }
            },
        static_cast<const T*>(args.x), static_cast<T*>(args.y), static_cast<Place*>(args.places),
        args.geometry, begin, end);
  });
}

/// n channels of one window.
template <class T, class N>
HEDDLE_INLINE void average_of_window(const Pool2dGeometry& g, const T* image, PoolRange rows,
                                     PoolRange cols, PoolCompute<T> count, N n, T* y) {
  PoolCompute<T> sum[cpu::kPoolChunk];
  for (int64_t k = 0; k < n; ++k) sum[k] = 0;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      const T* x = image + (row * g.in_w + col) * g.channels;
      for (int64_t k = 0; k < n; ++k) sum[k] += PoolCompute<T>(x[k]);
    }
  }
  for (int64_t k = 0; k < n; ++k) y[k] = T(sum[k] / count);
}

template <class T>
void avg_forward(const AvgPool2dForwardArgs& args) {
  const Pool2dGeometry& geometry = args.geometry;
  const int64_t grain = cpu::pool_rows_per_piece(geometry.out_w * geometry.channels);
  parallel_ranges(geometry.batch * geometry.out_h, grain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* x, T* y, Pool2dGeometry g, bool pad_counts, int64_t first,
           int64_t last) HEDDLE_VECTOR_LOOP {
          for (int64_t out_row = first; out_row < last; ++out_row) {
            const int64_t oh = out_row % g.out_h;
            const T* image = x + out_row / g.out_h * g.in_h * g.in_w * g.channels;
            const PoolRange rows = pool_rows(g, oh);
            for (int64_t ow = 0; ow < g.out_w; ++ow) {
              const PoolRange cols = pool_cols(g, ow);
              const auto count = static_cast<PoolCompute<T>>(pool_divisor(g, pad_counts, oh, ow));
              T* out = y + (out_row * g.out_w + ow) * g.channels;
              cpu::for_channel_chunks<T>(
                  g.channels, [&](int64_t c, auto n) __attribute__((always_inline)) {
                    average_of_window(g, image + c, rows, cols, count, n, out + c);
                  });
            }
          }
        },
        static_cast<const T*>(args.x), static_cast<T*>(args.y), geometry, args.count_include_pad,
        begin, end);
  });
}

/// The mean of n channels. Two levels of sums, so that large images keep their digits.
template <class T, class N>
HEDDLE_INLINE void mean_of_pixels(const T* x, int64_t pixels, int64_t channels, N n, T* y) {
  constexpr int64_t kInner = 64;
  using C = PoolCompute<T>;
  C sum[cpu::kPoolChunk], part[cpu::kPoolChunk];
  for (int64_t k = 0; k < n; ++k) sum[k] = 0;
  for (int64_t begin = 0; begin < pixels; begin += kInner) {
    const int64_t end = begin + kInner < pixels ? begin + kInner : pixels;
    for (int64_t k = 0; k < n; ++k) part[k] = 0;
    for (int64_t pixel = begin; pixel < end; ++pixel)
      for (int64_t k = 0; k < n; ++k) part[k] += C(x[pixel * channels + k]);
    for (int64_t k = 0; k < n; ++k) sum[k] += part[k];
  }
  for (int64_t k = 0; k < n; ++k) y[k] = T(sum[k] / static_cast<C>(pixels));
}

template <class T>
void global_forward(const GlobalAvgPoolForwardArgs& args) {
  parallel_for(args.batch, [&](int64_t image) {
    cpu::vectorized(
        [](const T* x, T* y, int64_t pixels, int64_t channels) HEDDLE_VECTOR_LOOP {
          cpu::for_channel_chunks<T>(
              channels, [&](int64_t c, auto n) __attribute__((always_inline)) {
                mean_of_pixels(x + c, pixels, channels, n, y + c);
              });
        },
        static_cast<const T*>(args.x) + image * args.pixels * args.channels,
        static_cast<T*>(args.y) + image * args.channels, args.pixels, args.channels);
  });
}

template <class T>
void global_backward(const GlobalAvgPoolBackwardArgs& args) {
  parallel_for(args.batch, [&](int64_t image) {
    cpu::vectorized(
        [](T* dx, const T* dy, int64_t pixels, int64_t channels) HEDDLE_VECTOR_LOOP {
          const auto count = static_cast<PoolCompute<T>>(pixels);
          for (int64_t c = 0; c < channels; ++c) dx[c] = T(PoolCompute<T>(dy[c]) / count);
          for (int64_t pixel = 1; pixel < pixels; ++pixel)
            std::copy_n(dx, channels, dx + pixel * channels);
        },
        static_cast<T*>(args.dx) + image * args.pixels * args.channels,
        static_cast<const T*>(args.dy) + image * args.channels, args.pixels, args.channels);
  });
}

std::string key_of(const char* op, const Pool2dGeometry& geometry, bool count_include_pad) {
  return fmt::format("{} {}{}", op, geometry.key(), count_include_pad ? " pad counts" : "");
}

}  // namespace

std::string Pool2dGeometry::key() const {
  return fmt::format("{} n{} {}x{}x{} -> {}x{} k{}x{} s{}x{} p{}x{}", name_of(dtype), batch, in_h,
                     in_w, channels, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h,
                     pad_w);
}
std::string MaxPool2dForwardArgs::key() const {
  return fmt::format("max_pool2d_forward {}{}", geometry.key(), places != nullptr ? " places" : "");
}
std::string MaxPool2dBackwardArgs::key() const {
  return key_of("max_pool2d_backward", geometry, false);
}
std::string AvgPool2dForwardArgs::key() const {
  return key_of("avg_pool2d_forward", geometry, count_include_pad);
}
std::string AvgPool2dBackwardArgs::key() const {
  return key_of("avg_pool2d_backward", geometry, count_include_pad);
}

void cpu::max_pool2d_forward(const MaxPool2dForwardArgs& args) {
  cpu::dispatch_places(args.geometry.dtype, args.place_dtype,
                       [&]<class T, class Place>() { max_forward<T, Place>(args); });
}

void cpu::avg_pool2d_forward(const AvgPool2dForwardArgs& args) {
  dispatch_float(args.geometry.dtype, [&]<class T>() { avg_forward<T>(args); });
}

void cpu::global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { global_forward<T>(args); });
}

void cpu::global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { global_backward<T>(args); });
}

}  // namespace heddle
