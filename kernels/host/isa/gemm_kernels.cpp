// The tiles of a matrix product, accumulators in vector registers. Sums are kept in the type of the
// operands, in the order of k. Deterministic. The tile is as large as the registers allow: its
// accumulators, one row of b and one broadcast value of a.
#include "heddle/kernels/host/isa/gemm_kernels.h"

#include "heddle/kernels/host/isa/simd.h"

namespace heddle::cpu::HEDDLE_ISA_NAMESPACE {
namespace {

#if defined(HEDDLE_ISA_avx512)
constexpr int kRows = 12;  // 24 accumulators of 32 registers
#elif defined(HEDDLE_ISA_avx2)
constexpr int kRows = 6;  // 12 accumulators of 16 registers
#else
constexpr int kRows = 4;  // without a fused multiply-add a product needs a register too
#endif
constexpr int kVectors = 2;  // vectors in a row of the tile; one where it has few columns

template <class T>
constexpr int kCols = kVectors* kLanes<T>;

template <class T, int R, int V>
struct Accumulators {
  Vector<T> v[R][V];
};

template <class T, int R, int V>
HEDDLE_ISA_INLINE void clear(Accumulators<T, R, V>& sum) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum.v[r][j] = Vector<T>{};
}

/// sum[r] += a[r] * b for one k. `a_at(r)` is the value of row r. Columns past those of one panel
/// are `b_panel` behind.
template <class T, int R, int V, class AAt>
HEDDLE_ISA_INLINE void multiply_add(Accumulators<T, R, V>& sum, const T* b, int64_t b_panel,
                                    const AAt& a_at) {
  if constexpr (V > kVectors) {
    Vector<T> a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = splat(a_at(r));
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      const T* const at = b + (j < kVectors ? 0 : b_panel) + j % kVectors * kLanes<T>;
      const Vector<T> values = load(at);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum.v[r][j] = fma(a[r], values, sum.v[r][j]);
    }
    return;
  }
  Vector<T> row[V];
#pragma GCC unroll 4
  for (int j = 0; j < V; ++j) row[j] = load(b + j * kLanes<T>);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const Vector<T> a = splat(a_at(r));
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum.v[r][j] = fma(a, row[j], sum.v[r][j]);
  }
}

/// What is done to a row of sums.
template <class T>
struct Ends {
  const T* bias;
  int64_t cols;
  bool accumulate, relu;
};

/// Writes one row of fewer than V vectors, summed from zero. Not inlined: it would be in every
/// kernel many times.
template <class T>
[[gnu::noinline]] void store_part(T* c, const T* values, const Ends<T>& ends) {
  for (int64_t j = 0; j < ends.cols; ++j) {
    T value = values[j];
    if (ends.bias != nullptr) value += ends.bias[j];
    if (ends.accumulate) value += c[j];
    c[j] = ends.relu && value < T(0) ? T(0) : value;
  }
}

/// sum.v[r][j] = f(sum.v[r][j], r, j) for all.
template <class T, int R, int V, class F>
HEDDLE_ISA_INLINE void change(Accumulators<T, R, V>& sum, const F& f) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum.v[r][j] = f(sum.v[r][j], r, j);
}

/// Begins with whole vectors of the bias, or with `Io` as much of the last as there is.
template <class T, int R, int V, class Io>
HEDDLE_ISA_INLINE void load_bias(Accumulators<T, R, V>& sum, const T* bias, const Io& io) {
  Vector<T> row[V];
#pragma GCC unroll 4
  for (int j = 0; j < V; ++j) row[j] = io.load(bias + j * kLanes<T>, j);
  change(
      sum, [&](Vector<T>, int, int j) __attribute__((always_inline)) { return row[j]; });
}

/// Writes whole vectors, or with `Io` as much of the last as there is.
template <class T, int R, int V, class Io, class CAt>
HEDDLE_ISA_INLINE void store_vectors(Accumulators<T, R, V>& sum, const Ends<T>& ends, const Io& io,
                                     const CAt& c_at) {
  if (ends.accumulate)
    change(
        sum, [&](Vector<T> v, int r, int j) __attribute__((always_inline)) {
          return io.load(c_at(r) + j * kLanes<T>, j) + v;
        });
  if (ends.relu)
    change(
        sum, [](Vector<T> v, int, int) __attribute__((always_inline)) { return relu(v); });
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) io.store(c_at(r) + j * kLanes<T>, sum.v[r][j], j);
}

template <class T>
struct WholeVectors {
  HEDDLE_ISA_INLINE Vector<T> load(const T* p, int) const { return HEDDLE_ISA_NAMESPACE::load(p); }
  HEDDLE_ISA_INLINE void store(T* p, Vector<T> v, int) const { HEDDLE_ISA_NAMESPACE::store(p, v); }
};

/// The last of V vectors has `last` values.
template <class T, int V>
struct PartOfLast {
  int64_t last;
  HEDDLE_ISA_INLINE Vector<T> load(const T* p, int j) const {
    return j == V - 1 ? load_first(p, last) : HEDDLE_ISA_NAMESPACE::load(p);
  }
  HEDDLE_ISA_INLINE void store(T* p, Vector<T> v, int j) const {
    if (j == V - 1) return store_first(p, v, last);
    HEDDLE_ISA_NAMESPACE::store(p, v);
  }
};

/// What the sums begin with: the bias, which the first multiplications wait for less than the last
/// stores would for another addition. `store_part` adds it where the tile is narrower.
template <class T, int R, int V>
HEDDLE_ISA_INLINE void begin_tile(Accumulators<T, R, V>& sum, const Ends<T>& ends) {
  if (ends.bias == nullptr) return clear(sum);
  if (ends.cols == V * kLanes<T>) return load_bias(sum, ends.bias, WholeVectors<T>{});
#if defined(HEDDLE_ISA_avx512)
  load_bias(sum, ends.bias, PartOfLast<T, V>{ends.cols - (V - 1) * kLanes<T>});
#else
  clear(sum);
#endif
}

/// Row r of the sums goes to `c_at(r)`.
template <class T, int R, int V, class CAt>
HEDDLE_ISA_INLINE void store_tile(Accumulators<T, R, V>& sum, const Ends<T>& ends,
                                  const CAt& c_at) {
  if (ends.cols == V * kLanes<T>) return store_vectors(sum, ends, WholeVectors<T>{}, c_at);
#if defined(HEDDLE_ISA_avx512)
  store_vectors(sum, ends, PartOfLast<T, V>{ends.cols - (V - 1) * kLanes<T>}, c_at);
#else
  T values[R][V * kLanes<T>];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(values[r] + j * kLanes<T>, sum.v[r][j]);
#pragma GCC unroll 1
  for (int r = 0; r < R; ++r) store_part<T>(c_at(r), values[r], ends);
#endif
}

/// One segment whose rows are `stride` apart: an address of every third row stays in a register.
/// Leaves `b` behind it.
template <class T, int R, int V>
HEDDLE_ISA_INLINE void multiply_dense(Accumulators<T, R, V>& sum, const T*& b, int64_t b_row,
                                      int64_t b_panel, const T* a, int64_t stride, int64_t length) {
  constexpr int kBases = (R + 2) / 3;
  const T* base[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * stride;
#pragma GCC unroll 3
  for (int64_t k = 0; k < length; ++k, b += b_row) {
    multiply_add(
        sum, b,
        b_panel, [&](int r) __attribute__((always_inline)) { return base[r / 3][r % 3 * stride]; });
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) ++base[i];
  }
}

/// Fetches V vectors that will be written. A store to memory that is in no cache holds up the
/// stores behind it, and at last the arithmetic.
template <class T, int V>
HEDDLE_ISA_INLINE void fetch_to_write(const T* c) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(T));
#pragma GCC unroll 8
  for (int j = 0; j < V * kLanes<T>; j += kLine) __builtin_prefetch(c + j, 1);
}

template <class T, int R, int V>
void dense_tile_of(const DenseTile<T>& tile) {
  for (int64_t i = 0; i < tile.tiles; ++i) {
    T* const c = tile.c + i * tile.c_step;
    const int64_t c_row = tile.c_row;
    const auto c_at = [&](int r) __attribute__((always_inline)) { return c + r * c_row; };
    if (tile.c_ahead != 0)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) fetch_to_write<T, V>(c_at(r) + tile.c_ahead);
    const Ends<T> ends{tile.bias != nullptr ? tile.bias + i * tile.bias_step : nullptr, tile.cols,
                       tile.accumulate, tile.relu};
    Accumulators<T, R, V> sum;
    begin_tile(sum, ends);
    const T* a = tile.a + i * tile.a_step;
    const T* b = tile.b + i * tile.b_step;
    for (int64_t s = 0; s < tile.segments; ++s, a += tile.a_segment)
      multiply_dense(sum, b, tile.b_row, tile.b_panel, a, tile.a_row, tile.length);
    store_tile(sum, ends, c_at);
  }
}

template <class T, int R, int V>
void rows_tile_of(const RowsTile<T>& tile) {
  T* c[R];  // read before the first store, which could change them
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) c[r] = tile.c[r] + tile.c_offset;
  const auto c_at = [&](int r) __attribute__((always_inline)) { return c[r]; };
  const Ends<T> ends{tile.bias, tile.cols, tile.accumulate, tile.relu};
  Accumulators<T, R, V> sum;
  begin_tile(sum, ends);
  const int64_t length = tile.length;
  for (int64_t i = 0; i < tile.segments; ++i) {
    const int64_t segment = tile.which[i];
    const T* b = tile.b + segment * length * kCols<T>;
    const T* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = tile.a[segment * kRows + r] + tile.a_offset;
    for (int64_t k = 0; k < length; ++k, b += kCols<T>)
      multiply_add(
          sum, b, 0, [&](int r) __attribute__((always_inline)) { return a[r][k]; });
  }
  store_tile(sum, ends, c_at);
}

template <class T, int R, int V>
void outer_tile_of(const OuterTile<T>& tile) {
  T* const c = tile.c;  // read before the first store, which could change them
  const int64_t stride = tile.c_stride;
  const auto c_at = [&](int r) __attribute__((always_inline)) { return c + r * stride; };
  const Ends<T> ends{nullptr, tile.cols, tile.accumulate, false};
  Accumulators<T, R, V> sum;
  begin_tile(sum, ends);
  for (int64_t k = 0; k < tile.depth; ++k) {
    const T* a = tile.a[k] + tile.a_offset;
    multiply_add(
        sum, tile.b[k] + tile.b_offset,
        kCols<T>, [&](int r) __attribute__((always_inline)) { return a[r]; });
  }
  store_tile(sum, ends, c_at);
}

/// Calls the kernel with as many rows as the tile has.
template <class T, int V, int R = kRows>
void dense_tile_by(const DenseTile<T>& tile) {
  if (tile.rows == R) return dense_tile_of<T, R, V>(tile);
  if constexpr (R > 1) dense_tile_by<T, V, R - 1>(tile);
}

template <class T>
void dense_tile(const DenseTile<T>& tile) {
  if (tile.b_panel != 0) return dense_tile_by<T, 2 * kVectors, kRows / 2>(tile);
  tile.cols > kLanes<T> ? dense_tile_by<T, kVectors>(tile) : dense_tile_by<T, 1>(tile);
}

template <class T, int V, int R = kRows>
void rows_tile_by(const RowsTile<T>& tile) {
  if (tile.rows == R) return rows_tile_of<T, R, V>(tile);
  if constexpr (R > 1) rows_tile_by<T, V, R - 1>(tile);
}

template <class T>
void rows_tile(const RowsTile<T>& tile) {
  tile.cols > kLanes<T> ? rows_tile_by<T, kVectors>(tile) : rows_tile_by<T, 1>(tile);
}

template <class T, int V, int R = kRows>
void outer_tile_by(const OuterTile<T>& tile) {
  if (tile.rows == R) return outer_tile_of<T, R, V>(tile);
  if constexpr (R > 1) outer_tile_by<T, V, R - 1>(tile);
}

template <class T>
void outer_tile(const OuterTile<T>& tile) {
  if (tile.cols > kCols<T>) return outer_tile_by<T, 2 * kVectors, kRows / 2>(tile);
  tile.cols > kLanes<T> ? outer_tile_by<T, kVectors>(tile) : outer_tile_by<T, 1>(tile);
}

template <class T>
void pack_scalar(T* packed, const T* source, int64_t col_stride, int64_t row_stride, int64_t cols,
                 int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < cols; ++j)
      packed[k * kCols<T> + j] = source[j * col_stride + k * row_stride];
    for (int64_t j = cols; j < kCols<T>; ++j) packed[k * kCols<T> + j] = T(0);
  }
}

template <class T>
void pack_transposed(T* packed, const T* source, int64_t stride, int64_t cols, int64_t depth) {
  constexpr int n = kLanes<T>;
  const int64_t whole = depth - depth % n;
  for (int64_t k = 0; k < whole; k += n) {
    for (int64_t j = 0; j < kCols<T>; j += n) {
      Vector<T> block[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i)
        block[i] = j + i < cols ? load(source + (j + i) * stride + k) : Vector<T>{};
      transpose<T>(block);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) store(packed + (k + i) * kCols<T> + j, block[i]);
    }
  }
  pack_scalar(packed + whole * kCols<T>, source + whole, stride, 1, cols, depth - whole);
}

template <class T>
void pack_rows(T* packed, const T* source, int64_t stride, int64_t cols, int64_t depth) {
  if (cols < kCols<T>) return pack_scalar(packed, source, 1, stride, cols, depth);
  for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 4
    for (int j = 0; j < kCols<T>; j += kLanes<T>)
      store(packed + k * kCols<T> + j, load(source + k * stride + j));
}

}  // namespace

extern const GemmKernels<float> kGemmFloat32 = {kRows,
                                                kCols<float>,
                                                dense_tile<float>,
                                                rows_tile<float>,
                                                outer_tile<float>,
                                                pack_transposed<float>,
                                                pack_rows<float>};
extern const GemmKernels<double> kGemmFloat64 = {kRows,
                                                 kCols<double>,
                                                 dense_tile<double>,
                                                 rows_tile<double>,
                                                 outer_tile<double>,
                                                 pack_transposed<double>,
                                                 pack_rows<double>};

}  // namespace heddle::cpu::HEDDLE_ISA_NAMESPACE
