// Tiles of dot products: each sum has a vector of partial sums (of every kLanes-th product, in
// their order), which are added up in a tree at the end. Deterministic.
#include "heddle/kernels/host/isa/dot_kernels.h"

#include "heddle/kernels/host/isa/simd.h"

namespace heddle::cpu::HEDDLE_ISA_NAMESPACE {
namespace {

// Accumulators, a value of each row and one of a column fill the registers.
#if defined(HEDDLE_ISA_avx512)
constexpr int kRows = 4, kCols = 6;  // of 32
#elif defined(HEDDLE_ISA_avx2)
constexpr int kRows = 3, kCols = 4;  // of 16
#else
constexpr int kRows = 3, kCols = 3;  // without a fused multiply-add a product needs one too
#endif

/// Lane i is the sum of sums[i]'s lanes.
template <class T>
HEDDLE_ISA_INLINE Vector<T> add_across(Vector<T> (&sums)[kLanes<T>]) {
#pragma GCC unroll 4
  for (int n = kLanes<T> / 2; n > 0; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i)
      sums[i] = interleave_low(sums[i], sums[i + n]) + interleave_high(sums[i], sums[i + n]);
  return sums[0];
}

/// The first n values at p, n < kLanes, and zeros.
template <class T>
HEDDLE_ISA_INLINE Vector<T> load_part(const T* p, int64_t n) {
#if defined(HEDDLE_ISA_avx512)
  return load_first(p, n);
#else
  T values[kLanes<T>] = {};
  for (int64_t i = 0; i < n; ++i) values[i] = p[i];
  return load(values);
#endif
}

/// sum[r * C + j] += a[r] * b[j], vectors that `load_from` loads.
template <class T, int R, int C, class Load>
HEDDLE_ISA_INLINE void multiply_add(Vector<T> (&sum)[R * C], const T* (&a)[(R + 2) / 3],
                                    int64_t a_row, const T* (&b)[(C + 2) / 3], int64_t b_col,
                                    const Load& load_from) {
  Vector<T> rows[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) rows[r] = load_from(a[r / 3] + r % 3 * a_row);
#pragma GCC unroll 8
  for (int j = 0; j < C; ++j) {
    const Vector<T> col = load_from(b[j / 3] + j % 3 * b_col);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r * C + j] = fma(rows[r], col, sum[r * C + j]);
  }
}

/// `sums` (rows, cols) to memory. Not inlined: it would be in every kernel.
template <class T>
[[gnu::noinline]] void store_sums(const DotTile<T>& tile, const T* sums) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* const c = tile.c + r * tile.c_row;
    for (int64_t j = 0; j < tile.cols; ++j) {
      T value = sums[r * tile.cols + j];
      if (tile.accumulate) value += c[j];
      if (tile.bias != nullptr) value += tile.bias[j];
      c[j] = tile.relu && value < T(0) ? T(0) : value;
    }
  }
}

template <class T, int R, int C>
void tile_of(const DotTile<T>& tile) {
  constexpr int n = kLanes<T>;
  constexpr int kGroups = (R * C + n - 1) / n;
  Vector<T> sum[R * C] = {};
  const T* a[(R + 2) / 3];  // an address of every third row and column stays in a register
  const T* b[(C + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (R + 2) / 3; ++i) a[i] = tile.a + 3 * i * tile.a_row;
#pragma GCC unroll 8
  for (int i = 0; i < (C + 2) / 3; ++i) b[i] = tile.b + 3 * i * tile.b_col;
  const int64_t a_row = tile.a_row;
  const int64_t b_col = tile.b_col;
  const int64_t rest = tile.depth % n;
  const T* ahead = tile.ahead;
  for (int64_t k = tile.depth / n; k > 0; --k, ahead += n) {
    __builtin_prefetch(ahead, 0, 2);
    multiply_add<T, R, C>(
        sum, a, a_row, b, b_col, [](const T* p) __attribute__((always_inline)) { return load(p); });
#pragma GCC unroll 8
    for (auto& p : a) p += n;
#pragma GCC unroll 8
    for (auto& p : b) p += n;
  }
  if (rest > 0)
    multiply_add<T, R, C>(
        sum, a, a_row, b,
        b_col, [&](const T* p) __attribute__((always_inline)) { return load_part(p, rest); });
  T values[kGroups * n];
#pragma GCC unroll 8
  for (int group = 0; group < kGroups; ++group) {
    Vector<T> block[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) block[i] = group * n + i < R * C ? sum[group * n + i] : Vector<T>{};
    store(values + group * n, add_across<T>(block));
  }
  store_sums(tile, values);
}

/// Calls the kernel of as many rows and columns as the tile has.
template <class T, int R = kRows, int C = kCols>
void tile_by(const DotTile<T>& tile) {
  if (tile.rows != R) {
    if constexpr (R > 1) return tile_by<T, R - 1, C>(tile);
  } else if (tile.cols != C) {
    if constexpr (C > 1) return tile_by<T, R, C - 1>(tile);
  }
  tile_of<T, R, C>(tile);
}

}  // namespace

extern const DotKernels<float> kDotFloat32 = {kRows, kCols, kLanes<float>, tile_by<float>};
extern const DotKernels<double> kDotFloat64 = {kRows, kCols, kLanes<double>, tile_by<double>};

}  // namespace heddle::cpu::HEDDLE_ISA_NAMESPACE
