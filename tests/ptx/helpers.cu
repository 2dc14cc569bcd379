// Each PTX helper of kernels/device in a kernel of its own, operands loaded from places that name
// them: tests/ptx/check_ptx.py finds them again in what nvcc makes of it.
#include "heddle/kernels/device/cp_async.cuh"
#include "heddle/kernels/device/ldmatrix.cuh"
#include "heddle/kernels/device/mma.cuh"

using heddle::BFloat16;
using heddle::Float16;

/// words: d (4), a (4), b (2).
template <class T>
__device__ void multiply(float* d, const uint32_t* words) {
  float sums[4] = {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                   __uint_as_float(words[3])};
  const uint32_t a[4] = {words[4], words[5], words[6], words[7]};
  const uint32_t b[2] = {words[8], words[9]};
  heddle::mma_m16n8k16<T>(sums, a, b);
  for (int i = 0; i < 4; ++i) d[i] = sums[i];
}

extern "C" __global__ void mma_float16(float* d, const uint32_t* words) {
  multiply<Float16>(d, words);
}

extern "C" __global__ void mma_bfloat16(float* d, const uint32_t* words) {
  multiply<BFloat16>(d, words);
}

template <bool kTransposed>
__device__ void read_matrices(uint32_t* registers) {
  __shared__ __align__(16) uint16_t rows[32][8];
  for (int i = 0; i < 8; ++i) rows[threadIdx.x][i] = static_cast<uint16_t>(threadIdx.x * 8 + i);
  __syncthreads();
  uint32_t own[4];
  if (kTransposed) {
    heddle::ldmatrix_x4_transposed(own, rows[threadIdx.x]);
  } else {
    heddle::ldmatrix_x4(own, rows[threadIdx.x]);
  }
  for (int i = 0; i < 4; ++i) registers[i] = own[i];
}

extern "C" __global__ void ldmatrix(uint32_t* registers) { read_matrices<false>(registers); }

extern "C" __global__ void ldmatrix_transposed(uint32_t* registers) {
  read_matrices<true>(registers);
}

extern "C" __global__ void cp_async(uint4* y, const uint4* x, bool valid) {
  __shared__ uint4 shared[32];
  heddle::cp_async_16(&shared[threadIdx.x], x + threadIdx.x, valid);
  heddle::cp_async_commit();
  heddle::cp_async_wait<1>();
  heddle::cp_async_wait<0>();
  y[threadIdx.x] = shared[threadIdx.x];
}
