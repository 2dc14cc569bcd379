#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/vendor/cublas.h"

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

/// Handles that wait for their next use, by device. Never destroyed: they must not outlive the
/// driver, and a handle serves one host thread at a time.
struct Handles {
  std::mutex mutex;
  std::map<int, std::vector<cublasHandle_t>> idle;
};

Handles& handles() {
  static Handles& instance = *new Handles;
  return instance;
}

class HandleLease {
 public:
  explicit HandleLease(Device device) : device_(device.index) {
    {
      const std::lock_guard lock(handles().mutex);
      std::vector<cublasHandle_t>& idle = handles().idle[device_];
      if (!idle.empty()) {
        handle_ = idle.back();
        idle.pop_back();
        return;
      }
    }
    HEDDLE_CUDA_CHECK(cublasCreate(&handle_));
  }
  ~HandleLease() {
    const std::lock_guard lock(handles().mutex);
    handles().idle[device_].push_back(handle_);
  }
  HandleLease(const HandleLease&) = delete;
  HandleLease& operator=(const HandleLease&) = delete;

  cublasHandle_t get() const { return handle_; }

 private:
  int device_;
  cublasHandle_t handle_ = nullptr;
};

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

}  // namespace

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
  const HandleLease handle(stream.device());
  const DeviceScratch workspace(workspace_bytes(stream.device()), stream);
  HEDDLE_CUDA_CHECK(cublasSetStream(handle.get(), stream.get()));  // forgets the workspace
  HEDDLE_CUDA_CHECK(cublasSetWorkspace(handle.get(), workspace.data(),
                                       static_cast<size_t>(workspace_bytes(stream.device()))));
  HEDDLE_CUDA_CHECK(cublasSetMathMode(handle.get(), math_mode()));
  if (gemm.batch == 1) {
    HEDDLE_CUDA_CHECK(cublasGemmEx(handle.get(), operation(gemm.a), operation(gemm.b),
                                   as_int(gemm.m), as_int(gemm.n), as_int(gemm.k), &alpha,
                                   gemm.a.data, type, as_int(gemm.a.leading), gemm.b.data, type,
                                   as_int(gemm.b.leading), &gemm.beta, gemm.c, type,
                                   as_int(gemm.ldc), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return;
  }
  HEDDLE_CUDA_CHECK(cublasGemmStridedBatchedEx(
      handle.get(), operation(gemm.a), operation(gemm.b), as_int(gemm.m), as_int(gemm.n),
      as_int(gemm.k), &alpha, gemm.a.data, type, as_int(gemm.a.leading), gemm.a.batch_stride,
      gemm.b.data, type, as_int(gemm.b.leading), gemm.b.batch_stride, &gemm.beta, gemm.c, type,
      as_int(gemm.ldc), gemm.c_batch_stride, as_int(gemm.batch), CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT));
}

}  // namespace heddle::cublas
