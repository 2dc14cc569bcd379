#pragma once

// Launches a matrix product: plan, kernel of the plan's tile, sum of the parts.

#include "heddle/kernels/device/gemm_kernel.cuh"
#include "heddle/kernels/device/gemm_parts.cuh"
#include "heddle/kernels/device/gemm_plan.h"
#include "heddle/kernels/device/scratch.h"

namespace heddle {

/// An operand's loader, but for the tile: `template <...> using` with the tile's sizes put in.
template <template <class, class> class Loader, Along kAlong>
struct OperandKind {
  template <class T, int kRows, int kDepth, int kThreads>
  using For = Loader<T, TileMap<T, kAlong, kRows, kDepth, kThreads>>;
};

template <class T>
inline constexpr int kGemmDepth =
    std::is_same_v<T, float> ? SimtTile<64, 64>::kDepth : TensorTile<T, 64, 64>::kDepth;

template <class T, int kRows, int kCols>
using GemmTileOf = std::conditional_t<std::is_same_v<T, float>, SimtTile<kRows, kCols>,
                                      TensorTile<T, kRows, kCols>>;

template <class T, class KindA, class KindB>
struct GemmLauncher {
  template <class Tile, class OperandA, class OperandB>
  static void launch_tile(const OperandA& a, const OperandB& b, const GemmOutput<T>& out,
                          const GemmGrid& grid, unsigned blocks, StreamRef stream) {
    using A = typename KindA::template For<T, Tile::kRows, Tile::kDepth, Tile::kThreads>;
    using B = typename KindB::template For<T, Tile::kCols, Tile::kDepth, Tile::kThreads>;
    const LaunchShape shape{
        .grid = {blocks}, .block = {Tile::kThreads}, .shared_bytes = Tile::kSharedBytes};
    if constexpr (std::is_same_v<T, float>) {
      launch("gemm_simt_kernel", gemm_simt_kernel<Tile, A, B>, shape, stream, a, b, out, grid);
    } else {
      launch("gemm_tensor_kernel", gemm_tensor_kernel<Tile, A, B>, shape, stream, a, b, out, grid);
    }
  }
};

/// c = a b^T for operands of whole chunks. `depth_limit`: see plan_gemm.
template <class KindA, class KindB, class T, class OperandA, class OperandB>
void run_gemm(const cuda::GemmSizes& sizes, const OperandA& a, const OperandB& b, GemmOutput<T> out,
              int64_t depth_limit, StreamRef stream) {
  using Launcher = GemmLauncher<T, KindA, KindB>;
  const cuda::GemmPlan plan = cuda::plan_gemm(sizes, kGemmDepth<T>, depth_limit);
  const bool in_parts = plan.parts > 1 || out.kept > 0;
  const DeviceScratch scratch(in_parts ? plan.scratch_bytes(sizes) : 0, stream);
  out.partial = scratch.as<float>();
  out.partial_pitch = plan.pitch;
  const GemmGrid grid{plan.tiles_m, plan.tiles_n, plan.parts, sizes.k, plan.depth_of_part};
  const unsigned blocks = grid_for(plan.blocks, 1);
  switch (plan.tile) {
    case cuda::GemmTile::k128x128:
      Launcher::template launch_tile<GemmTileOf<T, 128, 128>>(a, b, out, grid, blocks, stream);
      break;
    case cuda::GemmTile::k128x64:
      Launcher::template launch_tile<GemmTileOf<T, 128, 64>>(a, b, out, grid, blocks, stream);
      break;
    case cuda::GemmTile::k64x64:
      Launcher::template launch_tile<GemmTileOf<T, 64, 64>>(a, b, out, grid, blocks, stream);
      break;
  }
  if (in_parts) sum_parts(out, plan.parts, sizes.batch, stream);
}

}  // namespace heddle
