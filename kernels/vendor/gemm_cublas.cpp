#include <algorithm>
#include <limits>

#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/provider.h"
#include "heddle/kernels/vendor/cublas.h"
#include "heddle/kernels/vendor/handle_lease.h"

namespace heddle::detail {

void check_cuda(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw CudaError(fmt::format("{}: {}: {} at {}:{}", call, cublasGetStatusName(status),
                              cublasGetStatusString(status), short_path(file), line),
                  cublasGetStatusName(status));
}

}  // namespace heddle::detail

namespace heddle::cublas {
namespace {

// What NVIDIA recommends for Hopper; for cards before it, 4 MiB.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
constexpr int64_t kWorkspaceBytesBefore = int64_t{4} << 20;

cublasHandle_t create_handle() {
  cublasHandle_t handle = nullptr;
  HEDDLE_CUDA_CHECK(cublasCreate(&handle));
  return handle;
}

int64_t workspace_bytes(Device device) {
  int major = 0;
  HEDDLE_CUDA_CHECK(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index));
  return major >= 9 ? kWorkspaceBytes : kWorkspaceBytesBefore;
}

cudaDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
    case DType::kUInt8:
    case DType::kInt64:
      break;
  }
  fail("cublas: dtype is {}, expected float32, float16 or bfloat16", name_of(dtype));
}

cublasOperation_t operation(const Matrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// The modes are bits: sums of 16-bit products are kept in float32 throughout.
cublasMath_t math_mode() {
  return static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                   CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

cublasComputeType_t compute_type(DType dtype) {
  return dtype == DType::kFloat32 && allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
}

}  // namespace

std::string library() {
  int version[3] = {};
  for (const auto part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
    HEDDLE_CUDA_CHECK(cublasGetProperty(part, &version[part]));
  return fmt::format("cuBLAS {}.{}.{}", version[0], version[1], version[2]);
}

bool supports(const Gemm& gemm) {
  if (gemm.dtype != DType::kFloat32 && gemm.dtype != DType::kFloat16 &&
      gemm.dtype != DType::kBFloat16)
    return false;
  const int64_t sizes[] = {gemm.m,         gemm.n,   gemm.k,    gemm.a.leading,
                           gemm.b.leading, gemm.ldc, gemm.batch};
  return std::ranges::all_of(
      sizes, [](int64_t size) { return size >= 1 && size <= std::numeric_limits<int>::max(); });
}

void run(const Gemm& gemm, StreamRef stream) {
  HEDDLE_ASSERT(supports(gemm));
  const auto as_int = [](int64_t size) { return static_cast<int>(size); };
  const cudaDataType type = data_type(gemm.dtype);
  const float alpha = 1.0F;
  const HandleLease<cublasHandle_t, &create_handle> handle(stream);
  const int64_t bytes = workspace_bytes(stream.device());
  const DeviceScratch workspace(bytes, stream);
  HEDDLE_CUDA_CHECK(cublasSetStream(handle.get(), stream.get()));  // forgets the workspace
  HEDDLE_CUDA_CHECK(cublasSetWorkspace(handle.get(), workspace.data(), static_cast<size_t>(bytes)));
  HEDDLE_CUDA_CHECK(cublasSetMathMode(handle.get(), math_mode()));
  if (gemm.batch == 1) {
    HEDDLE_CUDA_CHECK(cublasGemmEx(
        handle.get(), operation(gemm.a), operation(gemm.b), as_int(gemm.m), as_int(gemm.n),
        as_int(gemm.k), &alpha, gemm.a.data, type, as_int(gemm.a.leading), gemm.b.data, type,
        as_int(gemm.b.leading), &gemm.beta, gemm.c, type, as_int(gemm.ldc),
        compute_type(gemm.dtype), CUBLAS_GEMM_DEFAULT));
    return;
  }
  HEDDLE_CUDA_CHECK(cublasGemmStridedBatchedEx(
      handle.get(), operation(gemm.a), operation(gemm.b), as_int(gemm.m), as_int(gemm.n),
      as_int(gemm.k), &alpha, gemm.a.data, type, as_int(gemm.a.leading), gemm.a.batch_stride,
      gemm.b.data, type, as_int(gemm.b.leading), gemm.b.batch_stride, &gemm.beta, gemm.c, type,
      as_int(gemm.ldc), gemm.c_batch_stride, as_int(gemm.batch), compute_type(gemm.dtype),
      CUBLAS_GEMM_DEFAULT));
}

}  // namespace heddle::cublas
