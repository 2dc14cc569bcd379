#pragma once

// The kernels around the main loops: which tile and part a block has, and where its sums go.

#include "heddle/kernels/device/gemm_output.cuh"
#include "heddle/kernels/device/gemm_simt.cuh"
#include "heddle/kernels/device/gemm_tensor.cuh"

namespace heddle {

struct GemmGrid {
  int64_t tiles_m, tiles_n, parts, depth, depth_of_part;
};

/// Blocks that run side by side share rows of a and of b in the second-level cache: tiles are
/// walked down columns of bands kBand tiles high. Matrices of the batch and parts come one after
/// another.
template <class Tile>
__device__ __forceinline__ GemmBlock find_block(const GemmGrid& grid) {
  constexpr int64_t kBand = 8;
  const int64_t tiles = grid.tiles_m * grid.tiles_n;
  const int64_t matrix = int64_t{blockIdx.x} / tiles;
  const int64_t tile = int64_t{blockIdx.x} % tiles;
  const int64_t first = tile / (kBand * grid.tiles_n) * kBand;
  const int64_t within = tile % (kBand * grid.tiles_n);
  const int64_t height = grid.tiles_m - first < kBand ? grid.tiles_m - first : kBand;
  return {matrix % grid.parts, matrix / grid.parts, (first + within % height) * Tile::kRows,
          within / height * Tile::kCols};
}

/// The block's depth, and how many tiles that is.
struct GemmDepth {
  int64_t first;
  int depth, tiles;
};

template <class Tile>
__device__ __forceinline__ GemmDepth find_depth(const GemmGrid& grid, int64_t part) {
  const int64_t first = part * grid.depth_of_part;
  const int64_t left = grid.depth - first;
  const auto depth = static_cast<int>(left < grid.depth_of_part ? left : grid.depth_of_part);
  return {first, depth, (depth + Tile::kDepth - 1) / Tile::kDepth};
}

/// Where the sums will go. Offsets of the first element of each of the block's rows, or -1 for rows
/// past the end, wait for the end of the main loop in shared memory, behind the pipeline: that
/// saves registers in the loop, and divisions after it.
template <class T>
struct GemmPlace {
  const int64_t* rows;
  const T* bias;  // of the block's first column, or null
  int cols;       // the block's columns that exist
};

template <class Tile, class T>
__device__ __forceinline__ GemmPlace<T> find_place(const GemmOutput<T>& out, const GemmGrid& grid,
                                                   const GemmBlock& block) {
  auto* rows = reinterpret_cast<int64_t*>(dynamic_shared<char>() + Tile::kPipeline);
  const bool in_parts = out.partial != nullptr;
  const int64_t first_row = (block.batch * grid.parts + block.part) * out.m;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kRows; i += Tile::kThreads) {
    const int64_t row = block.row + i;
    const int64_t offset = in_parts ? (first_row + row) * out.partial_pitch
                                    : block.batch * out.batch_stride + out.row_offset(row);
    rows[i] = row < out.m ? offset + block.col : -1;
  }
  const bool has_bias = out.bias != nullptr && !in_parts;
  const int64_t cols = (in_parts ? out.partial_pitch : out.n) - block.col;
  return {rows, has_bias ? out.bias + block.batch * out.bias_stride + block.col : nullptr,
          static_cast<int>(cols < Tile::kCols ? cols : Tile::kCols)};
}

/// The bias of the block's columns, or zeros, in shared memory: in the pipeline's last bytes.
template <class Tile, class T>
__device__ __forceinline__ const float* stage_bias(const GemmPlace<T>& place) {
  auto* bias = dynamic_shared<float>() + Tile::kPipeline / 4 - Tile::kCols;
  const int col = static_cast<int>(threadIdx.x);
  static_assert(Tile::kThreads >= Tile::kCols);
  if (col < Tile::kCols)
    bias[col] = place.bias != nullptr && col < place.cols ? to_float(place.bias[col]) : 0.0F;
  __syncthreads();
  return bias;
}

template <class Tile>
__device__ __forceinline__ void store_simt(const GemmOutput<float>& out,
                                           const GemmPlace<float>& place,
                                           const float (&sums)[8][8]) {
  using Place = SimtPlace<Tile>;
  const Place own;
  const bool in_parts = out.partial != nullptr;
  float* data = in_parts ? out.partial : out.data;
  const float least = in_parts ? -INFINITY : out.least();
  const float* bias_of_block = stage_bias<Tile>(place);
  HEDDLE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int col = own.col + Place::step_col(half * 4);
    const Vector<float, 4> bias = load_shared<4>(bias_of_block + col);
    HEDDLE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int64_t offset = place.rows[own.row + Place::step_row(i)];
      if (offset < 0) continue;
      Vector<float, 4> run;
      HEDDLE_UNROLL
      for (int j = 0; j < 4; ++j) run[j] = at_least(sums[i][half * 4 + j] + bias[j], least);
      store_run(data + offset + col, place.cols - col, in_parts || out.wide, run);
    }
  }
}

template <class Tile, class LoaderA, class LoaderB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerMultiprocessor)
    gemm_simt_kernel(const __grid_constant__ typename LoaderA::Operand a,
                     const __grid_constant__ typename LoaderB::Operand b,
                     const __grid_constant__ GemmOutput<float> out,
                     const __grid_constant__ GemmGrid grid) {
  const GemmBlock block = find_block<Tile>(grid);
  const GemmDepth depth = find_depth<Tile>(grid, block.part);
  const auto place = find_place<Tile>(out, grid, block);  // the main loop's barriers follow
  LoaderA loader_a(a, {block.batch, block.row, depth.first, depth.depth});
  LoaderB loader_b(b, {block.batch, block.col, depth.first, depth.depth});
  float sums[8][8] = {};
  simt_main_loop<Tile>(loader_a, loader_b, depth.tiles, sums);
  store_simt<Tile>(out, place, sums);
}

/// Two neighbours at a time, four lanes side by side: whole sectors of 32 bytes.
template <class Tile, class T>
__device__ __forceinline__ void store_tensor_part(const GemmOutput<T>& out,
                                                  const GemmPlace<T>& place,
                                                  const TensorSums<Tile>& sums) {
  sums.each_pair([&](int row, int col, float left, float right) {
    const int64_t offset = place.rows[row];
    if (offset < 0 || col >= place.cols) return;
    store(out.partial + offset + col, Vector<float, 2>{{left, right}});
  });
}

/// Through shared memory, so that stores are 16 bytes wide.
template <class Tile, class T>
__device__ __forceinline__ void store_tensor(const GemmOutput<T>& out, const GemmPlace<T>& place,
                                             const TensorSums<Tile>& sums) {
  T* tile = dynamic_shared<T>();
  const float* bias_of_block = stage_bias<Tile>(place);
  const float least = out.least();
  sums.each_pair([&](int row, int col, float left, float right) {
    const Vector<float, 2> bias = load_shared<2>(bias_of_block + col);
    const Vector<T, 2> pair{{from_float<T>(at_least(left + bias[0], least)),
                             from_float<T>(at_least(right + bias[1], least))}};
    store_shared(tile + row * Tile::kOutPitch + col, pair);
  });
  __syncthreads();
  constexpr int kChunks = Tile::kCols / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kRows * kChunks; i += Tile::kThreads) {
    const int64_t offset = place.rows[i / kChunks];
    const int col = i % kChunks * 8;
    if (offset < 0) continue;
    store_run(out.data + offset + col, place.cols - col, out.wide,
              load_shared<8>(tile + i / kChunks * Tile::kOutPitch + col));
  }
}

template <class Tile, class LoaderA, class LoaderB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerMultiprocessor)
    gemm_tensor_kernel(const __grid_constant__ typename LoaderA::Operand a,
                       const __grid_constant__ typename LoaderB::Operand b,
                       const __grid_constant__ GemmOutput<typename Tile::Element> out,
                       const __grid_constant__ GemmGrid grid) {
  const GemmBlock block = find_block<Tile>(grid);
  const GemmDepth depth = find_depth<Tile>(grid, block.part);
  const auto place = find_place<Tile>(out, grid, block);  // the main loop's barriers follow
  LoaderA loader_a(a, {block.batch, block.row, depth.first, depth.depth});
  LoaderB loader_b(b, {block.batch, block.col, depth.first, depth.depth});
  TensorSums<Tile> sums = {};
  tensor_main_loop<Tile>(loader_a, loader_b, depth.tiles, sums);
  if (out.partial != nullptr) {
    store_tensor_part<Tile>(out, place, sums);
  } else {
    store_tensor<Tile>(out, place, sums);
  }
}

}  // namespace heddle
