#include "heddle/kernels/host/pair_product.h"

#include <algorithm>

#include "heddle/core/error.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/prefetch.h"
#include "heddle/kernels/host/scratch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace heddle::cpu {

#if defined(__x86_64__)
#define HEDDLE_TARGET_PAIRS \
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]]

namespace {

/// Writes a row of the sums, masks saying which columns there are.
HEDDLE_TARGET_PAIRS inline void write_row(const PairTile& tile, int64_t row, __m512 low,
                                          __m512 high, __mmask16 low_mask, __mmask16 high_mask) {
  if (tile.rounded != nullptr) {
    const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
    BFloat16* const c = tile.rounded + row * tile.c_row;
    if (tile.cols == kPairCols) return _mm512_storeu_si512(c, both);
    const __mmask32 mask = static_cast<__mmask32>(high_mask) << 16 | low_mask;
    return _mm512_mask_storeu_epi16(c, mask, both);
  }
  float* const c = tile.c + row * tile.c_row;
  if (tile.accumulate) {
    low = _mm512_add_ps(_mm512_maskz_loadu_ps(low_mask, c), low);
    high = _mm512_add_ps(_mm512_maskz_loadu_ps(high_mask, c + 16), high);
  }
  _mm512_mask_storeu_ps(c, low_mask, low);
  _mm512_mask_storeu_ps(c + 16, high_mask, high);
}

template <int R>
HEDDLE_TARGET_PAIRS void tile_of(const PairTile& tile) {
  const auto low_mask = static_cast<__mmask16>((1U << std::min<int64_t>(tile.cols, 16)) - 1);
  const auto high_mask = static_cast<__mmask16>((1U << std::max<int64_t>(tile.cols - 16, 0)) - 1);
  __m512 low[R], high[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) low[r] = high[r] = _mm512_setzero_ps();
  for (int64_t segment = 0; segment < tile.segments; ++segment) {
    const Pair* a = tile.a + segment * tile.a_segment;
    const Pair* b = tile.b + segment * tile.b_segment;
    for (int64_t k = 0; k < tile.length; ++k, a += tile.a_pair, b += tile.b_pair) {
      const auto b_low = reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi32(low_mask, b));
      const auto b_high = reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi32(high_mask, b + 16));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto a_r = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r])));
        low[r] = _mm512_dpbf16_ps(low[r], a_r, b_low);
        high[r] = _mm512_dpbf16_ps(high[r], a_r, b_high);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) write_row(tile, r, low[r], high[r], low_mask, high_mask);
}

template <int R = kPairRows>
void tile_by_rows(const PairTile& tile) {
  if constexpr (R > 1) {
    if (tile.rows != R) return tile_by_rows<R - 1>(tile);
  }
  tile_of<R>(tile);
}

}  // namespace

void multiply_pairs(const PairTile& tile) { tile_by_rows(tile); }

#else
void multiply_pairs(const PairTile&) { fail("this processor does not multiply bfloat16 by pairs"); }
#endif

void pack_pairs(Pair* pairs, const BFloat16* even, const BFloat16* odd, int64_t n) {
  if (odd == nullptr) {
    vectorized(
        [](Pair* out, const BFloat16* e, int64_t count) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < count; ++i) out[i] = e[i].bits;
        },
        pairs, even, n);
    return;
  }
  vectorized(
      [](Pair* out, const BFloat16* e, const BFloat16* o, int64_t count) HEDDLE_VECTOR_LOOP {
        for (int64_t i = 0; i < count; ++i) out[i] = e[i].bits | static_cast<Pair>(o[i].bits) << 16;
      },
      pairs, even, odd, n);
}

namespace {

constexpr int64_t kGroupCols = 4 * kPairCols;  // of b that are packed at a time

/// a (m, k) as (pairs of k, m).
void pack_a(Pair* packed, const PairProduct& p, int64_t pairs) {
  parallel_ranges(pairs, 16, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const BFloat16* const even = p.a + 2 * pair * p.a_depth;
      const BFloat16* const odd = 2 * pair + 1 < p.k ? even + p.a_depth : nullptr;
      Pair* const out = packed + pair * p.m;
      if (p.a_row == 1) {
        pack_pairs(out, even, odd, p.m);
        continue;
      }
      for (int64_t i = 0; i < p.m; ++i)
        out[i] = even[i * p.a_row].bits |
                 (odd == nullptr ? 0 : static_cast<Pair>(odd[i * p.a_row].bits) << 16);
    }
  });
}

/// Columns col .. col + cols - 1 of the product.
void multiply_group(const PairProduct& p, const Pair* a, int64_t pairs, int64_t col, int64_t cols) {
  const Scratch packed(pairs * kGroupCols * static_cast<int64_t>(sizeof(Pair)));
  Pair* const b = packed.as<Pair>();
  int64_t fetched = 0;  // rows of the next group
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const BFloat16* const even = p.b + 2 * pair * p.n + col;
    pack_pairs(b + pair * kGroupCols, even, 2 * pair + 1 < p.k ? even + p.n : nullptr, cols);
  }
  const int64_t tiles = (p.m + kPairRows - 1) / kPairRows;
  const int64_t step = (p.m + tiles - 1) / tiles;  // of even height
  const int64_t rows_a_tile = p.k * kPairCols / (tiles * cols) + 1;
  for (int64_t row = 0; row < p.m; row += step) {
    for (int64_t panel = 0; panel < cols; panel += kPairCols) {
      for (const int64_t end = std::min(fetched + rows_a_tile, p.k); fetched < end; ++fetched)
        for (int64_t line = 0; line < kGroupCols; line += 32)
          fetch_line_early(p.b + fetched * p.n + col + cols + line);
      PairTile tile{};
      if (p.c_dtype == DType::kFloat32) {
        tile.c = static_cast<float*>(p.c) + row * p.n + col + panel;
      } else {
        tile.rounded = static_cast<BFloat16*>(p.c) + row * p.n + col + panel;
      }
      tile.c_row = p.n;
      tile.a = a + row;
      tile.a_pair = p.m;
      tile.b = b + panel;
      tile.b_pair = kGroupCols;
      tile.segments = 1;
      tile.length = pairs;
      tile.rows = std::min(step, p.m - row);
      tile.cols = std::min(kPairCols, cols - panel);
      multiply_pairs(tile);
    }
  }
}

}  // namespace

void multiply_pairs(const PairProduct& p) {
  if (p.m == 0 || p.n == 0) return;
  const int64_t pairs = (p.k + 1) / 2;  // none: zeros are written
  const Scratch a(pairs * p.m * static_cast<int64_t>(sizeof(Pair)));
  pack_a(a.as<Pair>(), p, pairs);
  parallel_ranges(p.n, kGroupCols, [&](int64_t begin, int64_t end) {
    multiply_group(p, a.as<const Pair>(), pairs, begin, end - begin);
  });
}

}  // namespace heddle::cpu
