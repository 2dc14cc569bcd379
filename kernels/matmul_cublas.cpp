// Matrix products by cuBLAS: c^T = b^T a^T, since it knows matrices column by column. An operand
// needs its rows or its columns side by side.
#include "heddle/kernels/matmul.h"
#include "heddle/kernels/vendor/cublas.h"

namespace heddle::cublas {
namespace {

/// The (rows, cols) operand, turned; leading 0 where its elements lie in no way that BLAS takes.
Matrix turned(const void* data, int64_t rows, int64_t cols, int64_t row, int64_t col,
              int64_t batch) {
  if (col == 1 && row >= cols) return {data, row, false, batch};
  if (row == 1 && col >= rows) return {data, col, true, batch};
  return {data, 0, false, batch};
}

Gemm gemm_of(const MatmulArgs& args) {
  return {.dtype = args.dtype,
          .m = args.n,
          .n = args.m,
          .k = args.k,
          .a = turned(args.b, args.k, args.n, args.b_row, args.b_col, args.b_batch),
          .b = turned(args.a, args.m, args.k, args.a_row, args.a_col, args.a_batch),
          .c = args.c,
          .ldc = args.n,
          .c_batch_stride = args.m * args.n,
          .batch = args.batch};
}

}  // namespace

bool matmul_supports(const MatmulArgs& args) { return supports(gemm_of(args)); }

void matmul(const MatmulArgs& args, StreamRef stream) { run(gemm_of(args), stream); }

}  // namespace heddle::cublas
