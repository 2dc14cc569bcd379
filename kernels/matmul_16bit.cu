// The 16-bit half of kernels/matmul.cu, apart so that the two compile side by side.
#include "heddle/kernels/device/gemm_matrix.cuh"

namespace heddle::cuda {

void gemm_16bit(const GemmArgs& args, StreamRef stream) {
  if (args.dtype == DType::kFloat16) return gemm_of_type<Float16>(args, stream);
  gemm_of_type<BFloat16>(args, stream);
}

}  // namespace heddle::cuda
