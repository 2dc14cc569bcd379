#pragma once

// The main loop for 16-bit floats: c (kRows, kCols) = a b^T for one block of four warps, two by
// two, on the tensor cores with float32 sums. Tiles of 32 deep come by cp.async, 16 bytes a copy,
// into three buffers of shared memory in turn: two on their way while one is read, one barrier a
// tile. Operands lie there as they lie in memory, chunks of 16 bytes swizzled so that neither the
// copies nor ldmatrix meet a bank conflict; ldmatrix turns those that lie along their rows.
// Fragments are read one step of 16 ahead, across tiles too. The order of sums is that of k.

#include "heddle/kernels/device/cp_async.cuh"
#include "heddle/kernels/device/gemm_operand.cuh"
#include "heddle/kernels/device/ldmatrix.cuh"
#include "heddle/kernels/device/mma.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {

template <class T, int kRowsOfTile, int kColsOfTile>
struct TensorTile {
  using Element = T;
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kCols = kColsOfTile;
  static constexpr int kDepth = 32;
  static constexpr int kSteps = kDepth / 16;
  static constexpr int kStages = 3;
  static constexpr int kThreads = 128;
  // Registers hold kRows kCols / 128 sums a thread.
  static constexpr int kBlocksPerMultiprocessor = kRows == 64 ? 4 : kCols == 64 ? 3 : 2;
  static constexpr int kWarpRows = kRows / 2;
  static constexpr int kWarpCols = kCols / 2;
  static constexpr int kBytesA = kRows * kDepth * 2;
  static constexpr int kStage = kBytesA + kCols * kDepth * 2;  // bytes
  // Output passes through the pipeline's place on its way (gemm_kernel.cuh).
  static constexpr int kOutPitch = kCols + 8;  // elements
  static constexpr int kPipeline = kStages * kStage;
  static_assert(kRows * kOutPitch * 2 + kCols * 4 <= kPipeline);
  static constexpr int kSharedBytes = kPipeline + kRows * 8;
};

/// Offset, in bytes, of a chunk in a tile in shared memory.
template <class Map>
__device__ __forceinline__ int swizzled(int line, int chunk) {
  // Eight lanes read or write one chunk each of 8 lines (2 lines where a line is half a row of
  // banks): the exclusive or spreads them over the eight 16-byte columns of the banks.
  const int twist = Map::kChunks >= 8 ? line % 8 : line / 2 % 4;
  return (line * Map::kChunks + (chunk ^ twist)) * 16;
}

/// Issues the copies of this thread's chunks of one tile.
template <class Loader>
__device__ __forceinline__ void copy_tile(char* tile, const Loader& loader) {
  using Map = typename Loader::Map;
  char* first = tile + swizzled<Map>(Map::line(0), Map::chunk());
  static_assert(Map::kLinesPerPass % 8 == 0);  // so that all passes swizzle alike
  constexpr int kPass = Map::kLinesPerPass * Map::kChunks * 16;
  HEDDLE_UNROLL
  for (int pass = 0; pass < Map::kPasses; ++pass)
    cp_async_16(first + pass * kPass, loader.address(pass), loader.valid(pass));
}

/// Reads 16 rows x 16 depth of an operand's tile: the four registers are the 8x8 matrices
/// (rows, depth) = (0, 0), (8, 0), (0, 8), (8, 8) for a, and (0, 0), (0, 8), (8, 0), (8, 8) for b.
template <class Map, bool kIsA>
class FragmentReader {
 public:
  __device__ __forceinline__ explicit FragmentReader(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int second = lane / 8 % 2;  // 1 for matrices 1 and 3
    const int third = lane / 16;      // 1 for matrices 2 and 3
    row_ = kIsA ? second : third;
    depth_ = kIsA ? third : second;
    if constexpr (Map::kAlong == Along::kDepth) {
      offset_[0] = swizzled<Map>(first_row + row_ * 8 + lane % 8, depth_);
    } else {
      HEDDLE_UNROLL
      for (int i = 0; i < kOffsets; ++i)
        offset_[i] = swizzled<Map>(depth_ * 8 + lane % 8, first_row / 8 + 2 * i + row_);
    }
  }
  /// Block `i` of 16 rows from first_row on, at depth 16 step.
  __device__ __forceinline__ void read(uint32_t (&registers)[4], const char* tile, int i,
                                       int step) const {
    constexpr int kLine = Map::kChunks * 16;
    if constexpr (Map::kAlong == Along::kDepth) {
      const int twisted = offset_[0] ^ (step * 32);
      ldmatrix_x4(registers, tile + twisted + i * 16 * kLine);
    } else {
      ldmatrix_x4_transposed(registers, tile + offset_[i] + step * 16 * kLine);
    }
  }

 private:
  static constexpr int kOffsets = Map::kAlong == Along::kDepth ? 1 : Map::kTileRows / 2 / 16;
  int offset_[kOffsets];
  int row_, depth_;
};

/// A warp's operands of one step.
template <class Tile>
struct TensorFragment {
  static constexpr int kBlocksA = Tile::kWarpRows / 16;
  static constexpr int kBlocksB = Tile::kWarpCols / 16;
  uint32_t a[kBlocksA][4];
  uint32_t b[kBlocksB][4];

  template <class ReaderA, class ReaderB>
  __device__ __forceinline__ void read(const ReaderA& reader_a, const ReaderB& reader_b,
                                       const char* stage, int step) {
    HEDDLE_UNROLL
    for (int i = 0; i < kBlocksA; ++i) reader_a.read(a[i], stage, i, step);
    HEDDLE_UNROLL
    for (int j = 0; j < kBlocksB; ++j) reader_b.read(b[j], stage + Tile::kBytesA, j, step);
  }
};

/// The first row and column of this thread's warp in the block's tile.
template <class Tile>
struct TensorPlace {
  int row, col;

  __device__ __forceinline__ TensorPlace() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    row = warp / 2 * Tile::kWarpRows;
    col = warp % 2 * Tile::kWarpCols;
  }
};

/// Sums of a warp: block (i, j) of 16x8, in the layout of mma.cuh's d.
template <class Tile>
struct TensorSums {
  float block[Tile::kWarpRows / 16][Tile::kWarpCols / 8][4];

  __device__ __forceinline__ void add_product(const TensorFragment<Tile>& fragment) {
    HEDDLE_UNROLL
    for (int i = 0; i < Tile::kWarpRows / 16; ++i) {
      HEDDLE_UNROLL
      for (int j = 0; j < Tile::kWarpCols / 8; ++j) {
        const uint32_t(&pair)[4] = fragment.b[j / 2];
        const uint32_t b[2] = {pair[j % 2 * 2], pair[j % 2 * 2 + 1]};
        mma_m16n8k16<typename Tile::Element>(block[i][j], fragment.a[i], b);
      }
    }
  }
  /// f(row, col, left, right) for this thread's pairs of neighbours in the block's tile.
  template <class F>
  __device__ __forceinline__ void each_pair(const F& f) const {
    const TensorPlace<Tile> place;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = place.row + lane / 4;
    const int col = place.col + lane % 4 * 2;
    HEDDLE_UNROLL
    for (int i = 0; i < Tile::kWarpRows / 16; ++i) {
      HEDDLE_UNROLL
      for (int j = 0; j < Tile::kWarpCols / 8; ++j) {
        const float(&d)[4] = block[i][j];
        f(row + i * 16, col + j * 8, d[0], d[1]);
        f(row + i * 16 + 8, col + j * 8, d[2], d[3]);
      }
    }
  }
};

template <class Tile, class LoaderA, class LoaderB>
__device__ __forceinline__ void tensor_main_loop(LoaderA& a, LoaderB& b, int n_tiles,
                                                 TensorSums<Tile>& sums) {
  auto* shared = dynamic_shared<char>();
  const TensorPlace<Tile> place;
  const FragmentReader<typename LoaderA::Map, true> reader_a(place.row);
  const FragmentReader<typename LoaderB::Map, false> reader_b(place.col);
  constexpr int kEnd = Tile::kStages * Tile::kStage;
  int writing = 0;  // offsets of buffers
  const auto copy_next = [&] {
    copy_tile(shared + writing, a);
    copy_tile(shared + writing + Tile::kBytesA, b);
    cp_async_commit();
    a.advance();  // past the end all chunks are invalid
    b.advance();
    writing = writing + Tile::kStage == kEnd ? 0 : writing + Tile::kStage;
  };
  HEDDLE_UNROLL
  for (int stage = 0; stage + 1 < Tile::kStages; ++stage) copy_next();

  int reading = 0;
  const auto wait_for_tile = [] {
    cp_async_wait<Tile::kStages - 2>();
    __syncthreads();
  };
  TensorFragment<Tile> fragment[2];
  wait_for_tile();
  fragment[0].read(reader_a, reader_b, shared, 0);
  for (int tile = 0; tile < n_tiles; ++tile) {
    HEDDLE_UNROLL
    for (int step = 0; step < Tile::kSteps; ++step) {
      if (step + 1 == Tile::kSteps) {
        wait_for_tile();
        reading = reading + Tile::kStage == kEnd ? 0 : reading + Tile::kStage;
      }
      fragment[(step + 1) % 2].read(reader_a, reader_b, shared + reading,
                                    (step + 1) % Tile::kSteps);
      // Into the buffer of the tile before, which all warps have read: they met at its barrier.
      if (step == 0) copy_next();
      sums.add_product(fragment[step % 2]);
    }
  }
  cp_async_wait<0>();
  __syncthreads();
}

}  // namespace heddle
