// The size rule of matrix products on CUDA devices.
//   Tile    128x128, which reads each operand least often, where c is more than 64 wide and high
//   and
//           its tiles, times the parts that the depth allows, are kEnoughBlocks; 128x64 for a c at
//           most 64 wide; otherwise 64x64, for more blocks or less that is computed in vain.
//   Parts   as many as make kEnoughBlocks twice, each at least kLeastDepth deep: what a part saves
//           must outweigh writing and reading its sums.
#include "heddle/kernels/device/gemm_plan.h"

#include <algorithm>

namespace heddle::cuda {
namespace {

constexpr int64_t kEnoughBlocks = 128;  // one for each multiprocessor of an A100 or H100, about
constexpr int64_t kLeastDepth = 512;
constexpr int64_t kDepthLimit = int64_t{1} << 30;  // depth is counted in 32 bits within a part

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

GemmPlan tiled(const GemmSizes& sizes, GemmTile tile) {
  GemmPlan plan{};
  plan.tile = tile;
  plan.tiles_m = divide_up(sizes.m, rows_of(tile));
  plan.tiles_n = divide_up(sizes.n, cols_of(tile));
  plan.blocks = plan.tiles_m * plan.tiles_n * sizes.batch;
  return plan;
}

GemmPlan choose_tile(const GemmSizes& sizes, int64_t most_parts) {
  const auto enough = [&](const GemmPlan& plan) {
    return plan.blocks * most_parts >= kEnoughBlocks;
  };
  const GemmPlan large = tiled(sizes, GemmTile::k128x128);
  if (sizes.m > 64 && sizes.n > 64 && enough(large)) return large;
  const GemmPlan narrow = tiled(sizes, GemmTile::k128x64);
  if (sizes.m > 64 && sizes.n <= 64 && enough(narrow)) return narrow;
  return tiled(sizes, GemmTile::k64x64);
}

}  // namespace

int64_t rows_of(GemmTile tile) { return tile == GemmTile::k64x64 ? 64 : 128; }

int64_t cols_of(GemmTile tile) { return tile == GemmTile::k128x128 ? 128 : 64; }

int64_t GemmPlan::scratch_bytes(const GemmSizes& sizes) const {
  return parts * sizes.batch * sizes.m * pitch * static_cast<int64_t>(sizeof(float));
}

GemmPlan plan_gemm(const GemmSizes& sizes, int64_t depth_of_tile, int64_t depth_limit) {
  const int64_t most_parts = std::max<int64_t>(1, sizes.k / kLeastDepth);
  GemmPlan plan = choose_tile(sizes, most_parts);
  int64_t parts = 1;
  if (plan.blocks < kEnoughBlocks)
    parts = std::min(most_parts, divide_up(2 * kEnoughBlocks, std::max<int64_t>(1, plan.blocks)));
  const int64_t whole = depth_of_tile;
  const int64_t limit = std::min(depth_limit, kDepthLimit) / whole * whole;
  plan.depth_of_part = std::min(divide_up(divide_up(sizes.k, parts), whole) * whole, limit);
  if (sizes.k == 0) plan.depth_of_part = whole;
  plan.parts = std::max<int64_t>(1, divide_up(sizes.k, plan.depth_of_part));
  plan.blocks *= plan.parts;
  plan.pitch = divide_up(sizes.n, 4) * 4;
  return plan;
}

}  // namespace heddle::cuda
