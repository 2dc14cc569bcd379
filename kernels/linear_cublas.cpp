// Linear layers by cuBLAS. It knows matrices column by column; a row-major matrix (r, c) is the
// column-major (c, r), so each product is asked for turned: y^T = w x^T, dx^T = w^T dy^T,
// dw^T = x^T dy. The bias is laid into y first and the product added to it, which rounds once.
#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/fill.h"
#include "heddle/kernels/linear.h"
#include "heddle/kernels/vendor/cublas.h"
#include "heddle/kernels/vendor/epilogue.h"

namespace heddle::cublas {
namespace {

Gemm forward_gemm(const LinearForwardArgs& args) {
  return {.dtype = args.dtype,
          .m = args.out,
          .n = args.rows,
          .k = args.in,
          .a = {args.w, args.in, true},
          .b = {args.x, args.in},
          .c = args.y,
          .ldc = args.out,
          .beta = args.bias != nullptr ? 1.0F : 0.0F};
}

Gemm backward_data_gemm(const LinearBackwardDataArgs& args) {
  return {.dtype = args.dtype,
          .m = args.in,
          .n = args.rows,
          .k = args.out,
          .a = {args.w, args.in},
          .b = {args.dy, args.out},
          .c = args.dx,
          .ldc = args.in};
}

Gemm backward_weight_gemm(const LinearBackwardWeightArgs& args) {
  return {.dtype = args.dtype,
          .m = args.in,
          .n = args.out,
          .k = args.rows,
          .a = {args.x, args.in},
          .b = {args.dy, args.out, true},
          .c = args.dw,
          .ldc = args.in};
}

/// db (out) = dy^T times ones: the sum over rows in float32.
void sum_rows(const LinearBackwardWeightArgs& args, StreamRef stream) {
  const DeviceScratch ones(args.rows * size_of(args.dtype), stream);
  cuda::fill({View{ones.data(), args.dtype, {args.rows}, {1}}, 1.0}, stream);
  run({.dtype = args.dtype,
       .m = args.out,
       .n = 1,
       .k = args.rows,
       .a = {args.dy, args.out},
       .b = {ones.data(), args.rows},
       .c = args.db,
       .ldc = args.out},
      stream);
}

}  // namespace

bool linear_forward_supports(const LinearForwardArgs& args) { return supports(forward_gemm(args)); }
bool linear_backward_data_supports(const LinearBackwardDataArgs& args) {
  return supports(backward_data_gemm(args));
}
bool linear_backward_weight_supports(const LinearBackwardWeightArgs& args) {
  return args.dw_dtype == args.dtype && supports(backward_weight_gemm(args));
}

void linear_forward(const LinearForwardArgs& args, StreamRef stream) {
  if (args.bias != nullptr) lay_bias(args.y, args.bias, args.rows, args.out, args.dtype, stream);
  run(forward_gemm(args), stream);
  if (args.relu) apply_relu(args.y, args.rows * args.out, args.dtype, stream);
}

void linear_backward_data(const LinearBackwardDataArgs& args, StreamRef stream) {
  run(backward_data_gemm(args), stream);
}

void linear_backward_weight(const LinearBackwardWeightArgs& args, StreamRef stream) {
  run(backward_weight_gemm(args), stream);
  if (args.db != nullptr) sum_rows(args, stream);
}

}  // namespace heddle::cublas
