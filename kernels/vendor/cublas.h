#pragma once

// What the *_cublas.cpp share; for them alone.
#include <cublas_v2.h>

#include <cstdint>
#include <string>

#include "heddle/core/cuda_check.h"
#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle::detail {

/// HEDDLE_CUDA_CHECK of a cuBLAS call.
void check_cuda(cublasStatus_t status, const char* call, const char* file, int line);

}  // namespace heddle::detail

namespace heddle::cublas {

/// A matrix as BLAS sees it: `leading` elements from one column to the next, or, `transposed`, from
/// one row to the next.
struct Matrix {
  const void* data;
  int64_t leading;
  bool transposed = false;
  int64_t batch_stride = 0;
};

/// c (m, n) = a (m, k) b (k, n) + beta c, for each of `batch`, all column by column.
struct Gemm {
  DType dtype;
  int64_t m, n, k;
  Matrix a, b;
  void* c;
  int64_t ldc;
  int64_t c_batch_stride = 0;
  int64_t batch = 1;
  float beta = 0.0F;
};

std::string library();  ///< With the version that is linked.

/// Whether cuBLAS takes the dtype and sizes of this.
bool supports(const Gemm& gemm);

/// Numerics: accumulates in float32, float32 itself without TF32 unless that is allowed
/// (kernels/provider.h); same bits each run, since the workspace is ours and the stream one.
/// Errors: CudaError.
void run(const Gemm& gemm, StreamRef stream);

}  // namespace heddle::cublas
