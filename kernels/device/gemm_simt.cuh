#pragma once

// The float32 main loop: c (kRows, kCols) = a b^T for one block, on the ordinary cores. A thread
// holds 8x8 sums, a warp 32x64 (4x8 threads), in four quarters of 4x4 a thread, so that its reads
// of shared memory are 16 bytes wide and without conflicts. Tiles of 8 deep go from global memory
// through registers into two buffers of shared memory in turn, one barrier a tile.
// Sums in float32, in the order of k: the bits do not depend on the tile.

#include "heddle/kernels/device/gemm_operand.cuh"
#include "heddle/kernels/device/multiply_add.cuh"
#include "heddle/kernels/device/shared.cuh"
#include "heddle/kernels/device/vector_space.cuh"

namespace heddle {

template <int kRowsOfTile, int kColsOfTile>
struct SimtTile {
  using Element = float;
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kCols = kColsOfTile;
  static constexpr int kDepth = 8;
  static constexpr int kWarpsAcross = kCols / 64;
  static constexpr int kThreads = kRows / 32 * kWarpsAcross * 32;
  // 128 registers a thread do for the large tile, whose threads have fewer chunks each to fetch.
  static constexpr int kBlocksPerMultiprocessor = (kThreads == 256 ? 512 : 384) / kThreads;
  // Four words of padding put the two halves of a transposing warp on different banks.
  static constexpr int kPitchA = kRows + 4;
  static constexpr int kPitchB = kCols + 4;
  static constexpr int kStage = kDepth * (kPitchA + kPitchB);
  static constexpr int kPipeline = 2 * kStage * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kPipeline + kRows * 8;
};

/// A thread's place in the block's tile: its sum (i, j) is that of row + step_row(i) and
/// col + step_col(j).
template <class Tile>
struct SimtPlace {
  int row, col;

  __device__ __forceinline__ SimtPlace() {
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    row = warp / Tile::kWarpsAcross * 32 + lane / 8 * 4;
    col = warp % Tile::kWarpsAcross * 64 + lane % 8 * 4;
  }
  __device__ __forceinline__ static int step_row(int i) { return i / 4 * 16 + i % 4; }
  __device__ __forceinline__ static int step_col(int j) { return j / 4 * 32 + j % 4; }
};

/// This thread's chunks of one tile on their way through registers.
template <class Loader>
class SimtStaging {
 public:
  using Map = typename Loader::Map;

  __device__ __forceinline__ void fetch(const Loader& loader) {
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) {
      chunk_[pass] = Vector<float, 4>{};
      if (loader.valid(pass)) chunk_[pass] = load_constant<4>(loader.address(pass));
    }
  }
  /// Into `tile` (kDepth, pitch): chunks along the depth are turned.
  template <int kPitch>
  __device__ __forceinline__ void put(float* tile) const {
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) {
      if constexpr (Map::kAlong == Along::kRows) {
        store_shared(tile + Map::line(pass) * kPitch + Map::chunk() * 4, chunk_[pass]);
      } else {
        HEDDLE_UNROLL
        for (int i = 0; i < 4; ++i)
          tile[(Map::chunk() * 4 + i) * kPitch + Map::line(pass)] = chunk_[pass][i];
      }
    }
  }

 private:
  Vector<float, 4> chunk_[Map::kPasses];
};

/// A thread's rows of a and of b at one k.
struct SimtFragment {
  Vector<float, 4> a[2], b[2];

  __device__ __forceinline__ void read(const float* a_row, const float* b_row) {
    a[0] = load_shared<4>(a_row);
    a[1] = load_shared<4>(a_row + 16);
    b[0] = load_shared<4>(b_row);
    b[1] = load_shared<4>(b_row + 32);
  }
  __device__ __forceinline__ void multiply(float (&sums)[8][8]) const {
    HEDDLE_UNROLL
    for (int i = 0; i < 8; ++i) {
      HEDDLE_UNROLL
      for (int j = 0; j < 8; ++j)
        sums[i][j] = multiply_add(a[i / 4][i % 4], b[j / 4][j % 4], sums[i][j]);
    }
  }
};

template <class Tile, class LoaderA, class LoaderB>
__device__ __forceinline__ void simt_main_loop(LoaderA& a, LoaderB& b, int n_tiles,
                                               float (&sums)[8][8]) {
  auto* shared = dynamic_shared<float>();
  const SimtPlace<Tile> place;
  SimtStaging<LoaderA> staged_a;
  SimtStaging<LoaderB> staged_b;
  constexpr int kOfB = Tile::kDepth * Tile::kPitchA;
  const auto put = [&](float* stage) {
    staged_a.template put<Tile::kPitchA>(stage);
    staged_b.template put<Tile::kPitchB>(stage + kOfB);
  };
  staged_a.fetch(a);
  staged_b.fetch(b);
  put(shared);
  __syncthreads();
  int stage = 0;
  for (int tile = 0; tile < n_tiles; ++tile) {
    a.advance();
    b.advance();
    staged_a.fetch(a);  // past the end all chunks are invalid
    staged_b.fetch(b);
    const float* a_column = shared + stage + place.row;
    const float* b_column = shared + stage + kOfB + place.col;
    SimtFragment fragment[2];
    fragment[0].read(a_column, b_column);
    HEDDLE_UNROLL
    for (int k = 0; k < Tile::kDepth; ++k) {
      if (k + 1 < Tile::kDepth)
        fragment[(k + 1) % 2].read(a_column + (k + 1) * Tile::kPitchA,
                                   b_column + (k + 1) * Tile::kPitchB);
      fragment[k % 2].multiply(sums);
    }
    stage = Tile::kStage - stage;
    put(shared + stage);
    __syncthreads();
  }
}

}  // namespace heddle
