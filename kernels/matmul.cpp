// c = a b for each matrix of a batch. Sums are kept in the type of the operands, 16-bit floats in
// float32 through copies (correct, slow). Deterministic.
#include "heddle/kernels/matmul.h"

#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/widen.h"

namespace heddle {
namespace {

template <class T>
void multiply(const MatmulArgs& args, int64_t i) {
  cpu::gemm<T>({args.m, args.n, args.k, static_cast<T*>(args.c) + i * args.m * args.n, args.n,
                static_cast<const T*>(args.a) + i * args.a_batch, args.a_row, args.a_col,
                static_cast<const T*>(args.b) + i * args.b_batch, args.b_row, args.b_col});
}

template <class T>
void multiply_all(const MatmulArgs& args) {
  if (args.batch == 1) return multiply<T>(args, 0);  // the threads share one product
  parallel_for(args.batch, [&](int64_t i) { multiply<T>(args, i); });
}

/// Elements from the first to the last that a (batch, rows, cols) operand touches.
int64_t extent(const MatmulArgs& args, int64_t rows, int64_t cols, int64_t batch_stride,
               int64_t row_stride, int64_t col_stride) {
  if (args.batch == 0 || rows == 0 || cols == 0) return 0;
  return (args.batch - 1) * batch_stride + (rows - 1) * row_stride + (cols - 1) * col_stride + 1;
}

}  // namespace

std::string MatmulArgs::key() const {
  return fmt::format("matmul {} b{} m{} k{} n{} a{},{},{} b{},{},{}", dtype, batch, m, k, n,
                     a_batch, a_row, a_col, b_batch, b_row, b_col);
}

void cpu::matmul(const MatmulArgs& args) {
  if (args.dtype == DType::kFloat64) return multiply_all<double>(args);
  if (!is_16_bit(args.dtype)) return multiply_all<float>(args);
  const Widened a(args.a, extent(args, args.m, args.k, args.a_batch, args.a_row, args.a_col),
                  args.dtype);
  const Widened b(args.b, extent(args, args.k, args.n, args.b_batch, args.b_row, args.b_col),
                  args.dtype);
  const Narrowed c(args.c, args.batch * args.m * args.n, args.dtype);
  MatmulArgs wide = args;
  wide.a = a.data();
  wide.b = b.data();
  wide.c = c.data();
  multiply_all<float>(wide);
  c.write();
}

}  // namespace heddle
