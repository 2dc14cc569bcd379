// y (rows, out) = x (rows, in) w^T + bias, w (out, in); dx = dy w; dw = dy^T x; db = the sum of
// dy's rows. Products on the main loops of kernels/matmul.cu, bias and ReLU added as sums are
// stored. Sums in float32, also for 16-bit tensors. Deterministic.
#include "heddle/kernels/linear.h"

#include "heddle/core/error.h"
#include "heddle/kernels/device/column_sum.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/gemm.h"

namespace heddle::cuda {

void linear_forward(const LinearForwardArgs& args, StreamRef stream) {
  gemm({.op = "linear_forward",
        .dtype = args.dtype,
        .sizes = {args.rows, args.out, args.in, 1},
        .c = args.y,
        .a = {args.x, 0, args.in, 1},
        .b = {args.w, 0, args.in, 1},
        .bias = args.bias,
        .relu = args.relu},
       stream);
}

void linear_backward_data(const LinearBackwardDataArgs& args, StreamRef stream) {
  gemm({.op = "linear_backward_data",
        .dtype = args.dtype,
        .sizes = {args.rows, args.in, args.out, 1},
        .c = args.dx,
        .a = {args.dy, 0, args.out, 1},
        .b = {args.w, 0, 1, args.in}},
       stream);
}

void linear_backward_weight(const LinearBackwardWeightArgs& args, StreamRef stream) {
  HEDDLE_CHECK(args.dw_dtype == args.dtype, "linear_backward_weight: dw is {}, expected {}",
               args.dw_dtype, args.dtype);
  gemm({.op = "linear_backward_weight",
        .dtype = args.dtype,
        .sizes = {args.out, args.in, args.rows, 1},
        .c = args.dw,
        .a = {args.dy, 0, 1, args.out},
        .b = {args.x, 0, 1, args.in}},
       stream);
  if (args.db == nullptr) return;
  dispatch_device_float("linear_backward_weight", args.dtype, [&]<class T>() {
    column_sum(static_cast<T*>(args.db), static_cast<const T*>(args.dy), args.rows, args.out,
               stream);
  });
}

}  // namespace heddle::cuda
