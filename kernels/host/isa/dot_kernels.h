#pragma once

#include <cstdint>

/// Micro-kernels of products whose sums run along memory in both operands: nothing is packed.
/// dot_kernels.cpp is compiled once for each instruction set; see gemm_kernels.h.
namespace heddle::cpu {

/// c[row][col] = [c +] sum over k of a[row][k] * b[col][k], then + bias, then max(0, c).
template <class T>
struct DotTile {
  T* c;  // row r at c + r * c_row
  int64_t c_row;
  const T* a;  // row r at a + r * a_row
  int64_t a_row;
  const T* b;  // column j at b + j * b_col
  int64_t b_col;
  int64_t depth;
  int64_t rows, cols;  // from 1 to those of DotKernels
  const T* bias;       // (cols), may be null
  bool accumulate, relu;
  const T* ahead;  // `depth` values that will be used soon: fetched little by little
};

/// One instruction set's kernel and the largest tile that it works on.
template <class T>
struct DotKernels {
  int64_t rows, cols, lanes;
  void (*tile)(const DotTile<T>& tile);
};

#define HEDDLE_DECLARE_DOT_KERNELS(isa)        \
  namespace isa {                              \
  extern const DotKernels<float> kDotFloat32;  \
  extern const DotKernels<double> kDotFloat64; \
  }
HEDDLE_DECLARE_DOT_KERNELS(isa_baseline)
HEDDLE_DECLARE_DOT_KERNELS(isa_avx2)
HEDDLE_DECLARE_DOT_KERNELS(isa_avx512)
#undef HEDDLE_DECLARE_DOT_KERNELS

}  // namespace heddle::cpu
