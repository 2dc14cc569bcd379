// c = a b (batch, m, n) for each matrix of a batch, operands with any strides.
// Method: tiles of shared memory and registers, kernels/device/gemm_simt.cuh (float32, true float32
// products and sums) and gemm_tensor.cuh (16-bit, float32 sums); where c has few tiles its depth is
// cut into parts, added in a fixed order (gemm_plan.h). Deterministic: no atomics, and the cut
// depends on the sizes alone.
// Source: the blocking of CUTLASS ("Efficient GEMM in CUDA", NVIDIA/cutlass, media/docs).
#include "heddle/kernels/matmul.h"

#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/gemm_matrix.cuh"

namespace heddle::cuda {

void gemm(const GemmArgs& args, StreamRef stream) {
  dispatch_device_float(args.op, args.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      gemm_of_type<float>(args, stream);
    } else {
      gemm_16bit(args, stream);
    }
  });
}

void matmul(const MatmulArgs& args, StreamRef stream) {
  gemm({.op = "matmul",
        .dtype = args.dtype,
        .sizes = {args.m, args.n, args.k, args.batch},
        .c = args.c,
        .a = {args.a, args.a_batch, args.a_row, args.a_col},
        .b = {args.b, args.b_batch, args.b_col, args.b_row}},
       stream);
}

}  // namespace heddle::cuda
