// Max and average pooling over channels-last images, y (N, H', W', C) of x (N, H, W, C). A piece is
// some rows of the result (backward: of dx), the inner loop runs over channels. Backward gathers:
// each element of dx adds what the windows that hold it send it, in a fixed order, so overlapping
// windows need no atomics and dx is written once. 16-bit floats are summed in float32 and rounded
// once. Deterministic.
#include "heddle/kernels/pool2d.h"

#include <algorithm>
#include <limits>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/pool2d_windows.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements that a piece writes
constexpr int kLanes = 16;           // channels held in registers over a window

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

int64_t rows_per_piece(int64_t row_elements) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_elements));
}

/// Calls body.template operator()<lanes>(channel): whole blocks of kLanes, then one by one.
template <class Body>
HEDDLE_INLINE void for_channel_blocks(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body.template operator()<kLanes>(c);
  for (; c < channels; ++c) body.template operator()<1>(c);
}

template <int kCount, class T, class Place>
HEDDLE_INLINE void max_of_window(const Pool2dGeometry& g, const T* image, PoolRange rows,
                                 PoolRange cols, int64_t first_row, int64_t first_col, T* y,
                                 Place* places) {
  using C = Compute<T>;
  C best[kCount];
  int32_t place[kCount];
  for (int k = 0; k < kCount; ++k) {
    best[k] = -std::numeric_limits<C>::infinity();
    place[k] = static_cast<int32_t>((rows.begin - first_row) * g.kernel_w + cols.begin - first_col);
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      const T* x = image + (row * g.in_w + col) * g.channels;
      const auto here = static_cast<int32_t>((row - first_row) * g.kernel_w + col - first_col);
      for (int k = 0; k < kCount; ++k) {
        const C value = C(x[k]);
        const bool take = !(value <= best[k]) && best[k] == best[k];  // NaN is taken, and kept
        best[k] = take ? value : best[k];
        place[k] = take ? here : place[k];
      }
    }
  }
  for (int k = 0; k < kCount; ++k) y[k] = T(best[k]);
  if (places != nullptr)
    for (int k = 0; k < kCount; ++k) places[k] = static_cast<Place>(place[k]);
}

template <class T, class Place>
void max_forward(const MaxPool2dForwardArgs& args) {
  const int64_t row_elements = args.geometry.out_w * args.geometry.channels;
  const int64_t n_rows = args.geometry.batch * args.geometry.out_h;
  parallel_ranges(n_rows, rows_per_piece(row_elements), [&](int64_t begin, int64_t end) {
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
                  for_channel_blocks(
                      g.channels, [&]<int kCount>(int64_t c) __attribute__((always_inline)) {
                        max_of_window<kCount>(g, image + c, rows, cols, oh * g.stride_h - g.pad_h,
                                              ow * g.stride_w - g.pad_w, y + at + c,
                                              places == nullptr ? nullptr : places + at + c);
                      });
                }
              }
            },
        static_cast<const T*>(args.x), static_cast<T*>(args.y), static_cast<Place*>(args.places),
        args.geometry, begin, end);
  });
}

/// A position of dx, and the windows that hold it.
struct Element {
  int64_t outputs;   // where y of the image starts
  int64_t row, col;  // padded: row + pad_h, col + pad_w
  PoolRange rows, cols;
};

/// dx of kCount channels of one element: the sum of term(output index, place in the window, oh, ow)
/// over the windows that hold it.
template <int kCount, class T, class Term>
HEDDLE_INLINE void gather(const Pool2dGeometry& g, const Element& e, int64_t c, T* dx,
                          const Term& term) {
  Compute<T> sum[kCount] = {};
  for (int64_t oh = e.rows.begin; oh < e.rows.end; ++oh) {
    for (int64_t ow = e.cols.begin; ow < e.cols.end; ++ow) {
      const int64_t at = e.outputs + (oh * g.out_w + ow) * g.channels + c;
      const int64_t place = (e.row - oh * g.stride_h) * g.kernel_w + e.col - ow * g.stride_w;
      for (int k = 0; k < kCount; ++k) sum[k] += term(at + k, place, oh, ow);
    }
  }
  for (int k = 0; k < kCount; ++k) dx[k] = T(sum[k]);
}

/// Rows [first, last) of dx, by gather.
template <class T, class Term>
HEDDLE_INLINE void gather_rows(const Pool2dGeometry& g, T* dx, int64_t first, int64_t last,
                               const Term& term) {
  for (int64_t in_row = first; in_row < last; ++in_row) {
    const int64_t ih = in_row % g.in_h;
    Element e;
    e.outputs = in_row / g.in_h * g.out_h * g.out_w * g.channels;
    e.row = ih + g.pad_h;
    e.rows = pool_windows_of(ih, g.kernel_h, g.stride_h, g.pad_h, g.out_h);
    for (int64_t iw = 0; iw < g.in_w; ++iw) {
      e.col = iw + g.pad_w;
      e.cols = pool_windows_of(iw, g.kernel_w, g.stride_w, g.pad_w, g.out_w);
      T* element = dx + (in_row * g.in_w + iw) * g.channels;
      for_channel_blocks(
          g.channels, [&]<int kCount>(int64_t c) __attribute__((always_inline)) {
            gather<kCount>(g, e, c, element + c, term);
          });
    }
  }
}

template <class Body>
void for_input_rows(const Pool2dGeometry& g, const Body& body) {
  parallel_ranges(g.batch * g.in_h, rows_per_piece(g.in_w * g.channels), body);
}

template <class T, class Place>
void max_backward(const MaxPool2dBackwardArgs& args) {
  for_input_rows(args.geometry, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* dx, const T* dy, const Place* places, Pool2dGeometry g, int64_t first,
           int64_t last) HEDDLE_VECTOR_LOOP {
          gather_rows(
              g, dx, first, last,
              [=](int64_t at, int64_t place, int64_t, int64_t) __attribute__((always_inline)) {
                return places[at] == static_cast<Place>(place) ? Compute<T>(dy[at]) : Compute<T>(0);
              });
        },
        static_cast<T*>(args.dx), static_cast<const T*>(args.dy),
        static_cast<const Place*>(args.places), args.geometry, begin, end);
  });
}

template <int kCount, class T>
HEDDLE_INLINE void average_of_window(const Pool2dGeometry& g, const T* image, PoolRange rows,
                                     PoolRange cols, Compute<T> count, T* y) {
  Compute<T> sum[kCount] = {};
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      const T* x = image + (row * g.in_w + col) * g.channels;
      for (int k = 0; k < kCount; ++k) sum[k] += Compute<T>(x[k]);
    }
  }
  for (int k = 0; k < kCount; ++k) y[k] = T(sum[k] / count);
}

template <class T>
void avg_forward(const AvgPool2dForwardArgs& args) {
  const Pool2dGeometry& geometry = args.geometry;
  const int64_t grain = rows_per_piece(geometry.out_w * geometry.channels);
  parallel_ranges(geometry.batch * geometry.out_h, grain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* x, T* y, Pool2dGeometry g, bool pad_counts, int64_t first, int64_t last)
            HEDDLE_VECTOR_LOOP {
              for (int64_t out_row = first; out_row < last; ++out_row) {
                const int64_t oh = out_row % g.out_h;
                const T* image = x + out_row / g.out_h * g.in_h * g.in_w * g.channels;
                const PoolRange rows = pool_rows(g, oh);
                for (int64_t ow = 0; ow < g.out_w; ++ow) {
                  const PoolRange cols = pool_cols(g, ow);
                  const auto count = static_cast<Compute<T>>(pool_divisor(g, pad_counts, oh, ow));
                  T* out = y + (out_row * g.out_w + ow) * g.channels;
                  for_channel_blocks(
                      g.channels, [&]<int kCount>(int64_t c) __attribute__((always_inline)) {
                        average_of_window<kCount>(g, image + c, rows, cols, count, out + c);
                      });
                }
              }
            },
        static_cast<const T*>(args.x), static_cast<T*>(args.y), geometry, args.count_include_pad,
        begin, end);
  });
}

template <class T>
void avg_backward(const AvgPool2dBackwardArgs& args) {
  for_input_rows(args.geometry, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* dx, const T* dy, Pool2dGeometry g, bool pad_counts, int64_t first, int64_t last)
            HEDDLE_VECTOR_LOOP {
              gather_rows(
                  g, dx, first, last,
                  [=](int64_t at, int64_t, int64_t oh, int64_t ow) __attribute__((always_inline)) {
                    return Compute<T>(dy[at]) /
                           static_cast<Compute<T>>(pool_divisor(g, pad_counts, oh, ow));
                  });
            },
        static_cast<T*>(args.dx), static_cast<const T*>(args.dy), args.geometry,
        args.count_include_pad, begin, end);
  });
}

/// The mean of kCount channels. Two levels of sums, so that large images keep their digits.
template <int kCount, class T>
HEDDLE_INLINE void mean_of_pixels(const T* x, int64_t pixels, int64_t channels, T* y) {
  constexpr int64_t kInner = 64;
  using C = Compute<T>;
  C sum[kCount] = {};
  for (int64_t begin = 0; begin < pixels; begin += kInner) {
    const int64_t end = begin + kInner < pixels ? begin + kInner : pixels;
    C part[kCount] = {};
    for (int64_t pixel = begin; pixel < end; ++pixel)
      for (int k = 0; k < kCount; ++k) part[k] += C(x[pixel * channels + k]);
    for (int k = 0; k < kCount; ++k) sum[k] += part[k];
  }
  for (int k = 0; k < kCount; ++k) y[k] = T(sum[k] / static_cast<C>(pixels));
}

template <class T>
void global_forward(const GlobalAvgPoolForwardArgs& args) {
  parallel_for(args.batch, [&](int64_t image) {
    cpu::vectorized(
        [](const T* x, T* y, int64_t pixels, int64_t channels) HEDDLE_VECTOR_LOOP {
          for_channel_blocks(
              channels, [&]<int kCount>(int64_t c) __attribute__((always_inline)) {
                mean_of_pixels<kCount>(x + c, pixels, channels, y + c);
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
          const auto count = static_cast<Compute<T>>(pixels);
          for (int64_t c = 0; c < channels; ++c) dx[c] = T(Compute<T>(dy[c]) / count);
          for (int64_t pixel = 1; pixel < pixels; ++pixel)
            for (int64_t c = 0; c < channels; ++c) dx[pixel * channels + c] = dx[c];
        },
        static_cast<T*>(args.dx) + image * args.pixels * args.channels,
        static_cast<const T*>(args.dy) + image * args.channels, args.pixels, args.channels);
  });
}

/// Calls body.template operator()<T, Place>().
template <class Body>
void dispatch_places(DType dtype, DType place_dtype, const Body& body) {
  dispatch_float(dtype, [&]<class T>() {
    if (place_dtype == DType::kUInt8) {
      body.template operator()<T, uint8_t>();
    } else {
      body.template operator()<T, int64_t>();
    }
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
  dispatch_places(args.geometry.dtype, args.place_dtype,
                  [&]<class T, class Place>() { max_forward<T, Place>(args); });
}

void cpu::max_pool2d_backward(const MaxPool2dBackwardArgs& args) {
  dispatch_places(args.geometry.dtype, args.place_dtype,
                  [&]<class T, class Place>() { max_backward<T, Place>(args); });
}

void cpu::avg_pool2d_forward(const AvgPool2dForwardArgs& args) {
  dispatch_float(args.geometry.dtype, [&]<class T>() { avg_forward<T>(args); });
}

void cpu::avg_pool2d_backward(const AvgPool2dBackwardArgs& args) {
  dispatch_float(args.geometry.dtype, [&]<class T>() { avg_backward<T>(args); });
}

void cpu::global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { global_forward<T>(args); });
}

void cpu::global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { global_backward<T>(args); });
}

}  // namespace heddle
