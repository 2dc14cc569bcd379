#pragma once

#include <cstdint>
#include <vector>

#include "heddle/kernels/host/isa/gemm_kernels.h"
#include "heddle/kernels/host/scratch.h"

/// The blocking around the micro-kernels: which part of a product is done when, so that what is
/// read again lies in a cache. How work is cut follows from the sizes and the instruction set,
/// never from the number of threads.
namespace heddle::cpu {

/// The micro-kernels of active_isa(). T is float or double.
template <class T>
const GemmKernels<T>& gemm_kernels();

/// Depth (the length of the sums) of one block of a product: a panel of the packed operand of this
/// depth stays in the first- or second-level cache while rows stream by.
inline constexpr int64_t kDepthBlock = 384;

/// A part of a sum over (segments, length): segments first .. first + segments - 1, of each the
/// elements offset .. offset + length - 1.
struct DepthBlock {
  int64_t first, segments, offset, length;
  int64_t depth_before;  // summed depth of the blocks before it
  int64_t depth() const { return segments * length; }
};
std::vector<DepthBlock> cut_depth(int64_t segments, int64_t length);

/// A (segments * length, cols) operand as the micro-kernel wants it: for each block of the depth,
/// panels of nr columns, each (depth, nr), the last filled up with zeros.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix(int64_t segments, int64_t length, int64_t cols);

  const std::vector<DepthBlock>& blocks() const { return blocks_; }
  int64_t depth() const { return blocks_.back().depth_before + blocks_.back().depth(); }
  int64_t cols() const { return cols_; }
  int64_t panels() const { return panels_; }
  T* panel(const DepthBlock& block, int64_t index) const {
    return data_.as<T>() + block.depth_before * panels_ * nr_ + index * block.depth() * nr_;
  }

 private:
  std::vector<DepthBlock> blocks_;
  int64_t cols_, nr_, panels_;
  Scratch data_;
};

/// Where the rows of an indirect product lie: tiles of at most mr rows, for each the pointers to
/// its rows of c and, for each segment, to its rows of a.
template <class T>
class TileTable {
 public:
  TileTable(int64_t tiles, int64_t segments);

  int64_t tiles() const { return tiles_; }
  int64_t segments() const { return segments_; }
  int64_t& rows(int64_t tile) const { return words(tile)[0]; }
  /// Indices of the segments that are not zero in all rows, rising; and (segments + 1) how many of
  /// them come before each segment.
  int64_t* active(int64_t tile) const { return words(tile) + 1; }
  int64_t* active_before(int64_t tile) const { return words(tile) + 1 + segments_; }
  T** c(int64_t tile) const { return pointers_.as<T*>() + tile * (segments_ + 1) * mr_; }
  const T** a(int64_t tile) const {
    return pointers_.as<const T*>() + (tile * (segments_ + 1) + 1) * mr_;
  }

 private:
  int64_t* words(int64_t tile) const { return words_.as<int64_t>() + tile * (2 * segments_ + 2); }

  int64_t tiles_, segments_, mr_;
  Scratch words_, pointers_;
};

/// What is done to the sums, and where in a row the operands begin (a group of channels).
template <class T>
struct RowsEpilogue {
  const T* bias = nullptr;
  bool relu = false;
  int64_t a_offset = 0, c_offset = 0;
};

/// The rows of the table times `b`; one thread.
template <class T>
void multiply_rows(const TileTable<T>& table, const PackedMatrix<T>& b,
                   const RowsEpilogue<T>& epilogue);

/// Rows of a tile such that `rows` fall into tiles of even height.
inline int64_t even_height(int64_t rows, int64_t most) {
  const int64_t tiles = (rows + most - 1) / most;
  return tiles == 0 ? 1 : (rows + tiles - 1) / tiles;
}

/// The tile and those below it: `rows` in all, tile.rows at a time.
template <class T>
void multiply_down(DenseTile<T> tile, int64_t rows);

/// c (m, n) = a (m, k) b (k, n) + bias (n), then max(0, c) where `relu`. Strides are in elements
/// and may be any, 0 too; fast where b has a stride of 1 and a has depth stride 1.
template <class T>
struct GemmArgs {
  int64_t m, n, k;
  T* c;
  int64_t c_row;
  const T* a;
  int64_t a_row, a_depth;
  const T* b;
  int64_t b_depth, b_col;
  const T* bias = nullptr;
  bool relu = false;
};

/// On all threads. Each sum's order depends on the sizes alone.
template <class T>
void gemm(const GemmArgs<T>& args);

}  // namespace heddle::cpu
