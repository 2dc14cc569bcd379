#pragma once

// Where a matrix product finds its operands. c (m, n) = a (m, k) b (n, k)^T: both operands are
// rows by depth, and differ in which of the two lies beside itself in memory. A loader hands a
// thread the 16-byte chunks of the block's tile that are its to fetch, one tile of depth after
// another:
//   valid(pass)    whether the chunk lies within the depth; it counts as zeros where not
//   address(pass)  of the chunk
//   advance()      to the next kDepth of depth
// In the place of rows past the last the first is read: their sums are not stored. Extents and
// strides are whole chunks (kernels/device/pack.cuh makes them so). Offsets are 64-bit; the depth
// of one part is below 2^31 (kernels/device/gemm_plan.h).

#include <cstdint>

#include <cuda_runtime.h>

#include "heddle/core/dtype.h"
#include "heddle/kernels/device/vector.cuh"

namespace heddle {

/// Which index of an operand has stride 1: depth (k), or rows (m or n).
enum class Along { kDepth, kRows };

/// Which chunks of a tile of kRows x kDepth are whose: a line holds the index of stride 1.
template <class T, Along kLines, int kRows, int kDepth, int kThreads>
struct TileMap {
  static constexpr Along kAlong = kLines;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kTileRows = kRows;
  static constexpr int kTileDepth = kDepth;
  static constexpr int kChunks = (kAlong == Along::kDepth ? kDepth : kRows) / kVector;  // a line
  static constexpr int kLinesPerPass = kThreads / kChunks;
  static constexpr int kPasses = (kAlong == Along::kDepth ? kRows : kDepth) / kLinesPerPass;
  static_assert(kThreads % kChunks == 0 && kPasses >= 1);

  __device__ __forceinline__ static int line(int pass) {
    return static_cast<int>(threadIdx.x) / kChunks + pass * kLinesPerPass;
  }
  __device__ __forceinline__ static int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
};

/// The tile's place in an operand: its matrix of the batch, first row, first k, and how many k.
struct TileOrigin {
  int64_t batch, row, k;
  int depth;
};

/// A matrix of a batch, `lead` elements from line to line.
template <class T>
struct MatrixOperand {
  const T* data;
  int64_t rows;  // whole chunks where they lie along the line
  int64_t batch_stride, lead;
};

template <class T, class Map>
class MatrixLoader;

template <class T, int kRows, int kDepth, int kThreads>
class MatrixLoader<T, TileMap<T, Along::kDepth, kRows, kDepth, kThreads>> {
 public:
  using Map = TileMap<T, Along::kDepth, kRows, kDepth, kThreads>;
  using Operand = MatrixOperand<T>;

  __device__ __forceinline__ MatrixLoader(const Operand& operand, const TileOrigin& origin)
      : left_(origin.depth - Map::chunk() * Map::kVector) {
    const T* first =
        operand.data + origin.batch * operand.batch_stride + origin.k + Map::chunk() * Map::kVector;
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) {
      const int64_t row = origin.row + Map::line(pass);
      address_[pass] = first + (row < operand.rows ? row : 0) * operand.lead;
    }
  }
  __device__ __forceinline__ bool valid(int) const { return left_ > 0; }
  __device__ __forceinline__ const T* address(int pass) const { return address_[pass]; }
  __device__ __forceinline__ void advance() {
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) address_[pass] += kDepth;
    left_ -= kDepth;
  }

 private:
  const T* address_[Map::kPasses];
  int left_;  // depth from this thread's chunk to the end
};

template <class T, int kRows, int kDepth, int kThreads>
class MatrixLoader<T, TileMap<T, Along::kRows, kRows, kDepth, kThreads>> {
 public:
  using Map = TileMap<T, Along::kRows, kRows, kDepth, kThreads>;
  using Operand = MatrixOperand<T>;

  __device__ __forceinline__ MatrixLoader(const Operand& operand, const TileOrigin& origin)
      : lead_(operand.lead), left_(origin.depth - Map::line(0)) {
    const int64_t row = origin.row + Map::chunk() * Map::kVector;
    address_ = operand.data + origin.batch * operand.batch_stride + (row < operand.rows ? row : 0) +
               (origin.k + Map::line(0)) * lead_;
  }
  __device__ __forceinline__ bool valid(int pass) const {
    return pass * Map::kLinesPerPass < left_;
  }
  __device__ __forceinline__ const T* address(int pass) const {
    return address_ + pass * Map::kLinesPerPass * lead_;
  }
  __device__ __forceinline__ void advance() {
    address_ += kDepth * lead_;
    left_ -= kDepth;
  }

 private:
  const T* address_;
  int64_t lead_;
  int left_;  // depth from this thread's line to the end
};

}  // namespace heddle
