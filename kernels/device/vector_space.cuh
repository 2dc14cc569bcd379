#pragma once

// As load and store of vector.cuh, for shared memory, and for global memory that nobody writes
// during the kernel (16 bytes): nvcc may move these past other accesses.

#include "heddle/kernels/device/vector.cuh"

namespace heddle {

template <int N, class T>
__device__ __forceinline__ Vector<T, N> load_shared(const T* source) {
#ifdef __CUDASIM__
  Vector<T, N> result;
  cudasim::report_access(source, sizeof(result), cudasim::Access::kRead);
  cudasim::raw_copy(&result, source, sizeof(result));
  return result;
#else
  return *reinterpret_cast<const Vector<T, N>*>(source);
#endif
}

template <int N, class T>
__device__ __forceinline__ Vector<T, N> load_constant(const T* source) {
  static_assert(sizeof(T) * N == 16);
#ifdef __CUDASIM__
  return load_shared<N>(source);
#else
  return std::bit_cast<Vector<T, N> >(__ldg(reinterpret_cast<const uint4*>(source)));
#endif
}

template <class T, int N>
__device__ __forceinline__ void store_shared(T* target, const Vector<T, N>& value) {
#ifdef __CUDASIM__
  cudasim::report_access(target, sizeof(value), cudasim::Access::kWrite);
  cudasim::raw_copy(target, &value, sizeof(value));
#else
  *reinterpret_cast<Vector<T, N>*>(target) = value;
#endif
}

}  // namespace heddle
