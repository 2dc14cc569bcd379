#pragma once

#include <cstdint>

/// The micro-kernels that convolution, linear and matmul share. gemm_kernels.cpp is compiled once
/// for each instruction set, each time in a namespace of its own; this header declares what the
/// drivers (kernels/host/gemm.h, kernels/conv2d.cpp) see of it. Nothing here may be an inline
/// function or a library template: the linker could hand one set's copy to another machine.
namespace heddle::cpu {

/// c[row][col] = [c +] bias + sum over segments s and k of a[s][row][k] * b[s][k][col], then max(0,
/// c). All rows lie at even distances. One call does `tiles` of them, each a step from the one
/// before: other rows with the same b, or other columns.
template <class T>
struct DenseTile {
  T* c;  // row r at c + r * c_row
  int64_t c_row;
  const T* a;  // row r of segment s at a + s * a_segment + r * a_row
  int64_t a_row, a_segment;
  const T* b;       // (segments * length) rows of nr values that may be read
  int64_t b_row;    // distance of the rows of b: nr where it is packed
  int64_t b_panel;  // distance of a second panel of columns; or 0. With it the tile has 2 nr
                    // columns and at most mr / 2 rows
  const T* bias;    // (cols), may be null
  int64_t segments, length;
  int64_t rows, cols;  // at most mr, nr
  bool accumulate, relu;
  int64_t tiles;
  int64_t a_step, b_step, c_step, bias_step;
  int64_t c_ahead;  // distance of what will be written soon: fetched; or 0
};

/// The same for one tile whose rows of c and a are found through pointers: an image needs no
/// unfolding. Segments that are zero in all rows are left out.
template <class T>
struct RowsTile {
  T* const* c;           // (rows) pointers
  const T* const* a;     // (all segments, mr) pointers
  const T* b;            // (all segments, length) rows of nr values
  const int64_t* which;  // (segments)
  int64_t segments, length;
  const T* bias;       // (cols), may be null
  int64_t c_offset;    // added to each pointer of c
  int64_t a_offset;    // added to each pointer of a
  int64_t rows, cols;  // at most mr, nr
  bool accumulate, relu;
};

/// c[row][col] = [c +] sum over k of a[k][row] * b[k][col]: both operands as they lie in memory,
/// the sum running over their (scattered) rows.
template <class T>
struct OuterTile {
  T* c;  // row r at c + r * c_stride
  int64_t c_stride;
  const T* const* a;  // (depth) pointers
  const T* const* b;  // (depth) pointers; nr (2 nr) elements are read at each
  int64_t a_offset, b_offset;
  int64_t depth;
  int64_t rows, cols;  // at most mr, nr; or at most mr / 2 rows of exactly 2 nr
  bool accumulate;
};

/// One instruction set's kernels and the tile that they work on.
template <class T>
struct GemmKernels {
  int64_t mr, nr;
  void (*dense_tile)(const DenseTile<T>& tile);
  void (*rows_tile)(const RowsTile<T>& tile);
  void (*outer_tile)(const OuterTile<T>& tile);
  /// packed (depth, nr) = the transpose of source (cols, depth), rows `stride` apart; columns from
  /// `cols` on are zero.
  void (*pack_transposed)(T* packed, const T* source, int64_t stride, int64_t cols, int64_t depth);
  /// packed (depth, nr) = source (depth, cols), rows `stride` apart; the rest is zero.
  void (*pack_rows)(T* packed, const T* source, int64_t stride, int64_t cols, int64_t depth);
};

#define HEDDLE_DECLARE_GEMM_KERNELS(isa)         \
  namespace isa {                                \
  extern const GemmKernels<float> kGemmFloat32;  \
  extern const GemmKernels<double> kGemmFloat64; \
  }
HEDDLE_DECLARE_GEMM_KERNELS(isa_baseline)
HEDDLE_DECLARE_GEMM_KERNELS(isa_avx2)
HEDDLE_DECLARE_GEMM_KERNELS(isa_avx512)
#undef HEDDLE_DECLARE_GEMM_KERNELS

}  // namespace heddle::cpu
