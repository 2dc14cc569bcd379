#pragma once

#include <cstring>
#include <utility>

#include "heddle/core/dtype.h"

namespace heddle::cpu {

/// Rows and columns of the square that is transposed in vector registers of 16 bytes, which every
/// processor has.
template <class T>
inline constexpr int64_t kTransposeTile = 16 / static_cast<int64_t>(sizeof(T));

template <class T>
struct TransposeVector {
  typedef T type __attribute__((vector_size(16)));
};

/// The lower (or upper) halves of a and b, element by element in turn.
template <bool kUpper, class V, size_t... I>
HEDDLE_INLINE V interleave(V a, V b, std::index_sequence<I...>) {
  constexpr size_t n = sizeof...(I);
  constexpr size_t from = kUpper ? n / 2 : 0;
  return __builtin_shufflevector(a, b, ((I % 2) * n + from + I / 2)...);
}

/// target[r * target_stride + c] = source[c * source_stride + r] for a square of kTransposeTile.
/// log2(n) rounds of interleaving row i with row i + n/2 put element (c, r) at (r, c).
template <class T>
HEDDLE_INLINE void transpose_square(T* target, int64_t target_stride, const T* source,
                                    int64_t source_stride) {
  using V = typename TransposeVector<T>::type;
  constexpr int64_t n = kTransposeTile<T>;
  constexpr auto lanes = std::make_index_sequence<static_cast<size_t>(n)>();
  V rows[n];
  for (int64_t c = 0; c < n; ++c) std::memcpy(&rows[c], source + c * source_stride, sizeof(V));
  for (int64_t round = 1; round < n; round *= 2) {
    V mixed[n];
    for (int64_t i = 0; i < n / 2; ++i) {
      mixed[2 * i] = interleave<false>(rows[i], rows[i + n / 2], lanes);
      mixed[2 * i + 1] = interleave<true>(rows[i], rows[i + n / 2], lanes);
    }
    for (int64_t i = 0; i < n; ++i) rows[i] = mixed[i];
  }
  for (int64_t r = 0; r < n; ++r) std::memcpy(target + r * target_stride, &rows[r], sizeof(V));
}

/// Columns of the block that transpose_block turns: long runs for the target, a few pages at once.
inline constexpr int64_t kTransposeColumns = 256;

/// target[r * target_stride + c] = source[c * source_stride + r] for r < rows and c < cols <=
/// kTransposeColumns. Bands of rows as wide as a cache line go through a buffer: the source is read
/// by whole lines, the target written in long runs. (Rows and columns are often a power of two
/// apart, and would push each other out of the cache.)
template <class T>
HEDDLE_INLINE void transpose_block(T* target, int64_t target_stride, const T* source,
                                   int64_t source_stride, int64_t rows, int64_t cols) {
  constexpr int64_t n = kTransposeTile<T>;
  constexpr int64_t kBand = 64 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kPitch = kTransposeColumns + kBand;
  alignas(64) T buffer[kBand * kPitch];
  const int64_t banded_rows = cols < n ? 0 : rows - rows % n;
  const int64_t square_cols = cols - cols % n;
  for (int64_t band = 0; band < banded_rows; band += kBand) {
    const int64_t height = banded_rows - band < kBand ? banded_rows - band : kBand;
    const T* from = source + band;
    for (int64_t c = 0; c < square_cols; c += n) {
      // The next band's lines: strides of pages are beyond what the processor foresees.
      for (int64_t i = c; i < c + n; ++i) __builtin_prefetch(from + i * source_stride + kBand);
      for (int64_t r = 0; r < height; r += n)
        transpose_square(buffer + r * kPitch + c, kPitch, from + c * source_stride + r,
                         source_stride);
    }
    for (int64_t c = square_cols; c < cols; ++c)
      for (int64_t r = 0; r < height; ++r) buffer[r * kPitch + c] = from[c * source_stride + r];
    for (int64_t r = 0; r < height; ++r)
      std::memcpy(target + (band + r) * target_stride, buffer + r * kPitch,
                  static_cast<size_t>(cols) * sizeof(T));
  }
  for (int64_t r = banded_rows; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      target[r * target_stride + c] = source[c * source_stride + r];
}

}  // namespace heddle::cpu
