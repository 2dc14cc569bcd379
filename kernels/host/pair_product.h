#pragma once

#include <cstdint>

#include "heddle/core/dtype.h"

/// Products of bfloat16 matrices on processors that multiply bfloat16 by pairs, where
/// has_bfloat16_units(): a lane takes two neighbouring terms of its sum at once, so operands are
/// packed as pairs along the sum. Sums are float32, in one order for any number of threads;
/// subnormal operands count as zero.
namespace heddle::cpu {

/// Two terms of a sum: bfloat16 bits, the even one in the lower half.
using Pair = uint32_t;

inline constexpr int64_t kPairRows =
    13;  // of a tile: its sums and what they take fill 32 registers
inline constexpr int64_t kPairCols = 32;

/// c (rows, cols) = [c +] the sum over (segments, length) pairs of a[pair][row] * b[pair][col].
struct PairTile {
  float* c;
  int64_t c_row;
  const Pair* a;
  int64_t a_pair, a_segment;  // from a pair, or a segment's first pair, to the next
  const Pair* b;
  int64_t b_pair, b_segment;
  int64_t segments, length;
  int64_t rows, cols;  // 1 to kPairRows, 1 to kPairCols
  bool accumulate = false;
  BFloat16* rounded = nullptr;  // where given, c is written there, in bfloat16
};
void multiply_pairs(const PairTile& tile);

/// pairs[i] = (even[i], odd[i]); odd may be null: zeros.
void pack_pairs(Pair* pairs, const BFloat16* even, const BFloat16* odd, int64_t n);

/// c (m, n) = a (m, k) b (k, n), c in float32 or bfloat16; rows of b and c are dense.
struct PairProduct {
  int64_t m, n, k;
  void* c;
  DType c_dtype;
  const BFloat16* a;
  int64_t a_row, a_depth;
  const BFloat16* b;
};
/// On all threads.
void multiply_pairs(const PairProduct& product);

}  // namespace heddle::cpu
