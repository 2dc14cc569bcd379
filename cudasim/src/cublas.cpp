#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cudasim/bfloat16.h"
#include "cudasim/half.h"
#include "cudasim/helpers.h"
#include "memory.h"

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

namespace {

using cudasim::Access;

constexpr int kThreads = 32;  // of a block; each computes every 32nd column

/// A matrix in memory, column by column.
struct Matrix {
  char* data;
  cudaDataType type;
  long long leading;
  long long stride;  // from one of the batch to the next
  bool transposed;

  size_t bytes() const { return type == CUDA_R_32F ? 4 : 2; }

  char* at(long long batch, long long row, long long column) const {
    if (transposed) std::swap(row, column);
    return data + static_cast<size_t>(batch * stride + column * leading + row) * bytes();
  }
};

struct Product {
  int m, n, k;
  float alpha, beta;
  Matrix a, b, c;
  bool tf32 = false;
};

float load(const Matrix& matrix, const char* place) {
  if (matrix.type == CUDA_R_32F) return *reinterpret_cast<const float*>(place);
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(place);
  return matrix.type == CUDA_R_16F ? cudasim::half_to_float(bits)
                                   : cudasim::bfloat16_to_float(bits);
}

void store(const Matrix& matrix, char* place, float value) {
  if (matrix.type == CUDA_R_32F) {
    *reinterpret_cast<float*>(place) = value;
  } else {
    *reinterpret_cast<uint16_t*>(place) = matrix.type == CUDA_R_16F
                                              ? cudasim::half_from_float(value)
                                              : cudasim::bfloat16_from_float(value);
  }
}

/// The factor as it is multiplied: TF32 keeps 10 bits of a float's mantissa.
float factor(const Product& p, const Matrix& matrix, const char* place) {
  const float value = load(matrix, place);
  return p.tf32 ? std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000U) : value;
}

/// Tells the checkers of each element once, whoever of the block reads it how often.
void report_operand(const Matrix& matrix, int batch, int rows, int columns) {
  for (int column = static_cast<int>(threadIdx.x); column < columns; column += kThreads) {
    for (int row = 0; row < rows; ++row) {
      cudasim::report_access(matrix.at(batch, row, column), matrix.bytes(), Access::kRead);
    }
  }
}

/// One block for each product of the batch.
void gemm_kernel(Product p) {
  const int batch = static_cast<int>(blockIdx.x);
  report_operand(p.a, batch, p.m, p.k);
  report_operand(p.b, batch, p.k, p.n);
  for (int column = static_cast<int>(threadIdx.x); column < p.n; column += kThreads) {
    for (int row = 0; row < p.m; ++row) {
      float sum = 0.0F;
      for (int i = 0; i < p.k; ++i) {
        sum += factor(p, p.a, p.a.at(batch, row, i)) * factor(p, p.b, p.b.at(batch, i, column));
      }
      char* place = p.c.at(batch, row, column);
      float result = p.alpha * sum;
      if (p.beta != 0.0F) {
        cudasim::report_access(place, p.c.bytes(), Access::kRead);
        result += p.beta * load(p.c, place);
      }
      cudasim::report_access(place, p.c.bytes(), Access::kWrite);
      store(p.c, place, result);
    }
  }
}

bool takes(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

cublasStatus_t check(const cublasContext* handle, const Product& p, int batch_count,
                     cublasComputeType_t compute) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (p.m < 0 || p.n < 0 || p.k < 0 || batch_count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto fits = [](const Matrix& matrix, int rows, int columns) {
    return matrix.leading >= std::max(1, matrix.transposed ? columns : rows);
  };
  if (!fits(p.a, p.m, p.k) || !fits(p.b, p.k, p.n) || !fits(p.c, p.m, p.n)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!takes(p.a.type) || p.b.type != p.a.type ||
      (p.c.type != p.a.type && p.c.type != CUDA_R_32F) ||
      (compute != CUBLAS_COMPUTE_32F && !p.tf32) || (p.tf32 && p.a.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const cudasim::Allocation* workspace = cudasim::find_allocation(handle->workspace);
  if (workspace == nullptr || workspace->freed ||
      !workspace->contains(handle->workspace, handle->workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t multiply(const cublasContext* handle, const Product& p, int batch_count,
                        cublasComputeType_t compute) {
  const cublasStatus_t status = check(handle, p, batch_count, compute);
  if (status != CUBLAS_STATUS_SUCCESS || p.m == 0 || p.n == 0 || batch_count == 0) return status;
  int outer = 0;
  if (cudaGetDevice(&outer) != cudaSuccess || outer != handle->device) {
    return CUBLAS_STATUS_ARCH_MISMATCH;  // a handle belongs to the device it was made on
  }
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(batch_count);
  config.blockDim = kThreads;
  config.stream = handle->stream;
  return cudaLaunchKernelEx(&config, gemm_kernel, p) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

Matrix matrix_of(const void* data, cudaDataType type, int leading, long long stride,
                 cublasOperation_t operation) {
  return {static_cast<char*>(const_cast<void*>(data)), type, leading, stride,
          operation == CUBLAS_OP_T};
}

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "cublas unknown status";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "the library's call was refused or failed";
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{.device = device};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  handle->workspace = nullptr;
  handle->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batch_count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{m,
                        n,
                        k,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        matrix_of(a, a_type, lda, stride_a, transa),
                        matrix_of(b, b_type, ldb, stride_b, transb),
                        matrix_of(c, c_type, ldc, stride_c, CUBLAS_OP_N),
                        compute == CUBLAS_COMPUTE_32F_FAST_TF32};
  return multiply(handle, product, batch_count, compute);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b,
                                    b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
