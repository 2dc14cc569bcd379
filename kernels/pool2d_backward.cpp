// The gradients of max and average pooling over channels-last images, dx (N, H, W, C) from dy
// (N, H', W', C). A piece is some rows of dx, the inner loop runs over channels. Where windows do
// not overlap and fill the image, each element has one term. Else each element gathers what the
// windows that hold it send it, in a fixed order: no atomics, and dx is written once. 16-bit floats
// are summed in float32 and rounded once. Deterministic.
#include <bit>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/pool2d.h"
#include "heddle/kernels/host/scratch.h"
#include "heddle/kernels/pool2d.h"
#include "heddle/kernels/pool2d_windows.h"

namespace heddle {
namespace {

using cpu::PoolCompute;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

/// Whether an element lies in at most one window, and all that lie in none are beyond the last.
bool is_tiling(const Pool2dGeometry& g) {
  return g.kernel_h == g.stride_h && g.kernel_w == g.stride_w && g.pad_h == 0 && g.pad_w == 0;
}

/// Rows [first, last) of dx of a tiling. element(dx, output index, window's row and column, place
/// in the window, channels) writes all channels of one element.
template <class T, class Element>
HEDDLE_INLINE void tile_rows(const Pool2dGeometry& g, T* dx, int64_t first, int64_t last,
                             const Element& element) {
  for (int64_t in_row = first; in_row < last; ++in_row) {
    const int64_t oh = in_row % g.in_h / g.kernel_h;
    const int64_t row_place = (in_row % g.in_h - oh * g.kernel_h) * g.kernel_w;
    const int64_t n_windows = oh < g.out_h ? g.out_w : 0;
    T* to = dx + in_row * g.in_w * g.channels;
    T* const end = to + g.in_w * g.channels;
    int64_t at = (in_row / g.in_h * g.out_h + oh) * g.out_w * g.channels;
    for (int64_t ow = 0; ow < n_windows; ++ow, at += g.channels)
      for (int64_t col = 0; col < g.kernel_w; ++col, to += g.channels)
        element(to, at, oh, ow, row_place + col);
    for (; to < end; ++to) *to = T(0);
  }
}

/// A position of dx, and the windows that hold it.
struct Position {
  int64_t outputs;   // where y of the image starts
  int64_t row, col;  // padded: row + pad_h, col + pad_w
  PoolRange rows, cols;
};

/// dx of n channels of one element: the sum of term(output index, place in the window, oh, ow) over
/// the windows that hold it.
template <class T, class Term>
HEDDLE_INLINE void gather(const Pool2dGeometry& g, const Position& p, int64_t c, int64_t n, T* dx,
                          const Term& term) {
  PoolCompute<T> sum[cpu::kPoolChunk];
  for (int64_t k = 0; k < n; ++k) sum[k] = 0;
  for (int64_t oh = p.rows.begin; oh < p.rows.end; ++oh) {
    for (int64_t ow = p.cols.begin; ow < p.cols.end; ++ow) {
      const int64_t at = p.outputs + (oh * g.out_w + ow) * g.channels + c;
      const int64_t place = (p.row - oh * g.stride_h) * g.kernel_w + p.col - ow * g.stride_w;
      term(at, place, oh, ow, n, sum);
    }
  }
  for (int64_t k = 0; k < n; ++k) dx[k] = T(sum[k]);
}

/// Rows [first, last) of dx, by gather; `windows` of each column.
template <class T, class Term>
HEDDLE_INLINE void gather_rows(const Pool2dGeometry& g, const PoolRange* windows, T* dx,
                               int64_t first, int64_t last, const Term& term) {
  for (int64_t in_row = first; in_row < last; ++in_row) {
    const int64_t ih = in_row % g.in_h;
    Position p;
    p.outputs = in_row / g.in_h * g.out_h * g.out_w * g.channels;
    p.row = ih + g.pad_h;
    p.rows = pool_windows_of(ih, g.kernel_h, g.stride_h, g.pad_h, g.out_h);
    for (int64_t iw = 0; iw < g.in_w; ++iw) {
      p.col = iw + g.pad_w;
      p.cols = windows[iw];
      T* element = dx + (in_row * g.in_w + iw) * g.channels;
      cpu::for_channel_chunks<T>(
          g.channels, [&](int64_t c, int64_t n) __attribute__((always_inline)) {
            gather(g, p, c, n, element + c, term);
          });
    }
  }
}

/// Calls body(windows of each column, first row, last row) for pieces of the rows of dx.
template <class Body>
void for_input_rows(const Pool2dGeometry& g, const Body& body) {
  const bool gathers = !is_tiling(g);
  const cpu::Scratch memory(gathers ? g.in_w * static_cast<int64_t>(sizeof(PoolRange)) : 0);
  auto* const windows = memory.as<PoolRange>();
  for (int64_t iw = 0; gathers && iw < g.in_w; ++iw)
    windows[iw] = pool_windows_of(iw, g.kernel_w, g.stride_w, g.pad_w, g.out_w);
  parallel_ranges(g.batch * g.in_h, cpu::pool_rows_per_piece(g.in_w * g.channels),
                  [&](int64_t begin, int64_t end) { body(windows, begin, end); });
}

template <class T, class Place>
void max_backward(const MaxPool2dBackwardArgs& args) {
  for_input_rows(args.geometry, [&](const PoolRange* windows, int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* dx, const T* dy, const Place* places, Pool2dGeometry g, const PoolRange* columns,
           bool tiling, int64_t first, int64_t last) HEDDLE_VECTOR_LOOP {
          if (tiling)
            return tile_rows(
                g, dx, first, last,
                [=](T* __restrict to, int64_t at, int64_t, int64_t, int64_t place)
                    __attribute__((always_inline)) {
                      const auto here = static_cast<Place>(place);
                      for (int64_t c = 0; c < g.channels; ++c) {
                        const auto bits = std::bit_cast<Bits<T>>(dy[at + c]);
                        to[c] = std::bit_cast<T>(places[at + c] == here ? bits : Bits<T>(0));
                      }
                    });
          gather_rows(
              g, columns, dx, first, last,
              [=](int64_t at, int64_t place, int64_t, int64_t, int64_t n,
                  PoolCompute<T> * sum) __attribute__((always_inline)) {
                const auto here = static_cast<Place>(place);
                for (int64_t k = 0; k < n; ++k)
                  sum[k] += places[at + k] == here ? PoolCompute<T>(dy[at + k]) : PoolCompute<T>(0);
              });
        },
        static_cast<T*>(args.dx), static_cast<const T*>(args.dy),
        static_cast<const Place*>(args.places), args.geometry, windows, is_tiling(args.geometry),
        begin, end);
  });
}

template <class T>
void avg_backward(const AvgPool2dBackwardArgs& args) {
  for_input_rows(args.geometry, [&](const PoolRange* windows, int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* dx, const T* dy, Pool2dGeometry g, const PoolRange* columns, bool tiling,
           bool pad_counts, int64_t first, int64_t last) HEDDLE_VECTOR_LOOP {
          using C = PoolCompute<T>;
          if (tiling)
            return tile_rows(
                g, dx, first, last,
                [=](T* __restrict to, int64_t at, int64_t, int64_t, int64_t)
                    __attribute__((always_inline)) {
                      const auto count = static_cast<C>(g.kernel_h * g.kernel_w);
                      for (int64_t c = 0; c < g.channels; ++c) to[c] = T(C(dy[at + c]) / count);
                    });
          gather_rows(
              g, columns, dx, first, last,
              [=](int64_t at, int64_t, int64_t oh, int64_t ow, int64_t n, C * sum)
                  __attribute__((always_inline)) {
                    const auto count = static_cast<C>(pool_divisor(g, pad_counts, oh, ow));
                    for (int64_t k = 0; k < n; ++k) sum[k] += C(dy[at + k]) / count;
                  });
        },
        static_cast<T*>(args.dx), static_cast<const T*>(args.dy), args.geometry, windows,
        is_tiling(args.geometry), args.count_include_pad, begin, end);
  });
}

}  // namespace

void cpu::max_pool2d_backward(const MaxPool2dBackwardArgs& args) {
  dispatch_places(args.geometry.dtype, args.place_dtype,
                  [&]<class T, class Place>() { max_backward<T, Place>(args); });
}

void cpu::avg_pool2d_backward(const AvgPool2dBackwardArgs& args) {
  dispatch_float(args.geometry.dtype, [&]<class T>() { avg_backward<T>(args); });
}

}  // namespace heddle
