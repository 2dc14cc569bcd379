#pragma once

// Work on the columns of (groups, rows, channels) arrays, as batch-norm and global pooling do: a
// block takes a tile of neighbouring channels and a piece of the rows; its threads lie as (lanes,
// vectors of channels), so that a warp reads whole runs of memory even where channels are few, and
// lane l takes rows l, l + lanes, ... Sums over lanes have a fixed tree.
#include <algorithm>
#include <bit>

#include "heddle/kernels/device/floats.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {

inline constexpr int kColumnThreads = 256;

/// Sizes of the tiles, the same for all blocks. `width` channels are one vector.
struct ColumnTiles {
  int64_t channels = 0;
  int64_t n_tiles = 0;
  int log_vectors = 0;  // of a tile: up to 32, so 512 bytes of a row

  ColumnTiles(int64_t n_channels, int width) : channels(n_channels) {
    const int64_t vectors = n_channels / width;
    log_vectors =
        std::countr_zero(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, 32))));
    n_tiles = (vectors + (int64_t{1} << log_vectors) - 1) >> log_vectors;
  }
  int lanes() const { return kColumnThreads >> log_vectors; }
};

/// What this thread works on.
struct ColumnThread {
  int64_t piece;    // counts pieces of rows
  int64_t channel;  // the first of its vector; may lie past the end
  int vector;       // in the tile
  int lane, lanes;

  __device__ __forceinline__ ColumnThread(const ColumnTiles& tiles, int width) {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t block = blockIdx.x;
    vector = thread & ((1 << tiles.log_vectors) - 1);
    lane = thread >> tiles.log_vectors;
    lanes = kColumnThreads >> tiles.log_vectors;
    piece = block / tiles.n_tiles;
    const int64_t tile = block - piece * tiles.n_tiles;
    channel = ((tile << tiles.log_vectors) + vector) * width;
  }
};

/// Adds `sums` of all lanes; lane 0 has the result. All threads of the block call it. `memory` is
/// shared, kColumnThreads * N floats.
template <int N>
__device__ __forceinline__ void sum_lanes(const ColumnThread& at, float* memory, Floats<N>& sums) {
  const int thread = static_cast<int>(threadIdx.x);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) memory[k * kColumnThreads + thread] = sums[k];
  __syncthreads();
  for (int half = at.lanes / 2; half > 0; half /= 2) {
    if (at.lane < half) {
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) {
        float& mine = memory[k * kColumnThreads + thread];
        mine += memory[k * kColumnThreads + thread + half * (kColumnThreads / at.lanes)];
      }
    }
    __syncthreads();
  }
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) sums[k] = memory[k * kColumnThreads + thread];
}

}  // namespace heddle
