// CUTLASS's kernels of the same tiles as ours, for scripts/kernel_report.py: compiled for their
// machine code, never run, never a part of Heddle.
#include <cutlass/conv/device/implicit_gemm_convolution.h>
#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/gemm/device/gemm.h>

namespace {

using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Nhwc = cutlass::layout::TensorNHWC;
using Sm80 = cutlass::arch::Sm80;
using Simt = cutlass::arch::OpClassSimt;
using Tensor = cutlass::arch::OpClassTensorOp;
using Bf16 = cutlass::bfloat16_t;
using cutlass::gemm::GemmShape;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;
template <class T, int kWidth>
using Epilogue = cutlass::epilogue::thread::LinearCombination<T, kWidth, float, float>;

using GemmFloat32 =
    cutlass::gemm::device::Gemm<float, Row, float, Column, float, Row, float, Simt, Sm80,
                                GemmShape<128, 128, 8>, GemmShape<32, 64, 8>, GemmShape<1, 1, 1>,
                                Epilogue<float, 1>, Swizzle, 2>::GemmKernel;
using GemmBFloat16 =
    cutlass::gemm::device::Gemm<Bf16, Row, Bf16, Column, Bf16, Row, float, Tensor, Sm80,
                                GemmShape<128, 128, 32>, GemmShape<64, 64, 32>,
                                GemmShape<16, 8, 16>, Epilogue<Bf16, 8>, Swizzle, 3>::GemmKernel;

template <class T, class Class, class Tile, class Warp, class Instruction, int kStages, int kWidth>
using Forward = typename cutlass::conv::kernel::DefaultConv2dFprop<
    T, Nhwc, T, Nhwc, T, Nhwc, float, Class, Sm80, Tile, Warp, Instruction, Epilogue<T, kWidth>,
    Swizzle, kStages, cutlass::arch::OpMultiplyAdd,
    cutlass::conv::IteratorAlgorithm::kOptimized>::Kernel;
using ConvFloat32 =
    Forward<float, Simt, GemmShape<128, 128, 8>, GemmShape<32, 64, 8>, GemmShape<1, 1, 1>, 2, 1>;
using ConvBFloat16 = Forward<Bf16, Tensor, GemmShape<128, 128, 32>, GemmShape<64, 64, 32>,
                             GemmShape<16, 8, 16>, 3, 8>;

template <class Kernel>
__device__ void run(const typename Kernel::Params& params) {
  extern __shared__ __align__(16) char storage[];
  Kernel kernel;
  kernel(params, *reinterpret_cast<typename Kernel::SharedStorage*>(storage));
}

}  // namespace

__global__ void __launch_bounds__(256, 2) cutlass_gemm_float32(GemmFloat32::Params params) {
  run<GemmFloat32>(params);
}
__global__ void __launch_bounds__(128, 2) cutlass_gemm_bfloat16(GemmBFloat16::Params params) {
  run<GemmBFloat16>(params);
}
__global__ void __launch_bounds__(256, 2) cutlass_conv2d_float32(ConvFloat32::Params params) {
  run<ConvFloat32>(params);
}
__global__ void __launch_bounds__(128, 2) cutlass_conv2d_bfloat16(ConvBFloat16::Params params) {
  run<ConvBFloat16>(params);
}
