#include "heddle/kernels/host/outer_product.h"

#include <algorithm>

#include "heddle/kernels/host/gemm.h"

namespace heddle::cpu {
namespace {

/// Copies a last panel of fewer than nr columns, which the kernel may not read beyond.
template <class T>
void copy_columns(const OuterProduct<T>& product, int64_t col, int64_t nr, T* copies,
                  const T** pointers) {
  for (int64_t k = 0; k < product.depth; ++k) {
    T* out = copies + k * nr;
    std::copy_n(product.b[k] + product.b_offset + col, product.cols - col, out);
    std::fill(out + product.cols - col, out + nr, T(0));
    pointers[k] = out;
  }
}

}  // namespace

template <class T>
void add_outer(const OuterProduct<T>& product, T* copies, const T** pointers) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const int64_t half = kernels.mr / 2;
  // Low, wide tiles where they leave no row over: the nine values of a 3x3 filter's row.
  const bool wide = product.rows % kernels.mr == half && product.cols % (2 * kernels.nr) == 0;
  const int64_t mr = wide ? half : kernels.mr;
  const int64_t nr = wide ? 2 * kernels.nr : kernels.nr;
  const int64_t tiles = (product.rows + mr - 1) / mr;
  const int64_t step = tiles == 0 ? 1 : (product.rows + tiles - 1) / tiles;  // of even height
  for (int64_t col = 0; col < product.cols; col += nr) {
    OuterTile<T> tile{};
    tile.c_stride = product.stride;
    tile.a = product.a;
    tile.b = product.b;
    tile.b_offset = product.b_offset + col;
    tile.depth = product.depth;
    tile.cols = std::min(nr, product.cols - col);
    tile.accumulate = product.accumulate;
    if (tile.cols < nr) {
      copy_columns(product, col, nr, copies, pointers);
      tile.b = pointers;
      tile.b_offset = 0;
    }
    for (int64_t row = 0; row < product.rows; row += step) {
      tile.c = product.sums + row * product.stride + col;
      tile.a_offset = product.a_offset + row;
      tile.rows = std::min(step, product.rows - row);
      kernels.outer_tile(tile);
    }
  }
}

template void add_outer<float>(const OuterProduct<float>&, float*, const float**);
template void add_outer<double>(const OuterProduct<double>&, double*, const double**);

}  // namespace heddle::cpu
