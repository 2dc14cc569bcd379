#pragma once

#include <cstdint>

namespace heddle::cuda {

/// c (m, n) = a (m, k) b (n, k)^T for each of a batch.
struct GemmSizes {
  int64_t m, n, k, batch;
};

/// Rows x columns of c that a block computes.
enum class GemmTile { k128x128, k128x64, k64x64 };

int64_t rows_of(GemmTile tile);
int64_t cols_of(GemmTile tile);

/// How a product is cut: into tiles, and its depth into parts whose sums are added in order
/// afterwards. It depends on the sizes alone, never on the card: same sizes, same bits.
struct GemmPlan {
  GemmTile tile;
  int64_t tiles_m, tiles_n;
  int64_t parts, depth_of_part;  // the last part may be shorter
  int64_t blocks;                // of the grid
  int64_t pitch;                 // of the parts' sums: n, made whole chunks of 16 bytes

  int64_t scratch_bytes(const GemmSizes& sizes) const;  // float32 sums of all parts
};

/// `depth_of_tile`: parts are whole tiles deep, but for the last. `depth_limit`: the deepest part
/// that the operands allow. The rule is in the .cpp.
GemmPlan plan_gemm(const GemmSizes& sizes, int64_t depth_of_tile, int64_t depth_limit);

}  // namespace heddle::cuda
