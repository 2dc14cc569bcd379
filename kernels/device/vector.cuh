#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <type_traits>

/// Loads and stores of several neighbouring elements at a time, up to 16 bytes. All accesses of
/// more than one element go through here: under cudasim they report one access of the full width,
/// where the compiler's hooks would see its parts.

/// Before a loop of constant length. Under cudasim g++ unrolls as it likes.
#ifdef __CUDASIM__
#define HEDDLE_UNROLL
#else
#define HEDDLE_UNROLL _Pragma("unroll")
#endif

namespace heddle {

inline constexpr int kVectorBytes = 16;  ///< the widest load or store of one thread

/// N elements of T that are loaded and stored at once. N is a power of two.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  static_assert(N > 0 && (N & (N - 1)) == 0 && sizeof(T) * N <= kVectorBytes);
  T values[N];

  __device__ __forceinline__ T& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
};

/// N neighbours of global memory from `source`, which is aligned to N elements.
template <int N, class T>
__device__ __forceinline__ Vector<T, N> load(const T* source) {
#ifdef __CUDASIM__
  Vector<T, N> result;
  cudasim::report_access(source, sizeof(result), cudasim::Access::kRead);
  cudasim::raw_copy(&result, source, sizeof(result));
  return result;
#else
  // As assembly, since nvcc splits the copy of a struct and does not always put it together again.
  if constexpr (sizeof(T) * N == 16) {
    uint4 word;
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(__cvta_generic_to_global(source))
                 : "memory");
    return std::bit_cast<Vector<T, N> >(word);
  } else if constexpr (sizeof(T) * N == 8 && N > 1) {
    uint2 word;
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];"
                 : "=r"(word.x), "=r"(word.y)
                 : "l"(__cvta_generic_to_global(source))
                 : "memory");
    return std::bit_cast<Vector<T, N> >(word);
  } else if constexpr (sizeof(T) * N == 4 && N > 1) {
    return std::bit_cast<Vector<T, N> >(*reinterpret_cast<const uint32_t*>(source));
  } else {
    return *reinterpret_cast<const Vector<T, N>*>(source);
  }
#endif
}

/// N neighbours to global memory at `target`, which is aligned to N elements.
template <class T, int N>
__device__ __forceinline__ void store(T* target, const Vector<T, N>& value) {
#ifdef __CUDASIM__
  cudasim::report_access(target, sizeof(value), cudasim::Access::kWrite);
  cudasim::raw_copy(target, &value, sizeof(value));
#else
  if constexpr (sizeof(T) * N == 16) {
    const uint4 word = std::bit_cast<uint4>(value);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(target)), "r"(word.x), "r"(word.y), "r"(word.z),
                   "r"(word.w)
                 : "memory");
  } else if constexpr (sizeof(T) * N == 8 && N > 1) {
    const uint2 word = std::bit_cast<uint2>(value);
    asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                 :
                 : "l"(__cvta_generic_to_global(target)), "r"(word.x), "r"(word.y)
                 : "memory");
  } else if constexpr (sizeof(T) * N == 4 && N > 1) {
    *reinterpret_cast<uint32_t*>(target) = std::bit_cast<uint32_t>(value);
  } else {
    *reinterpret_cast<Vector<T, N>*>(target) = value;
  }
#endif
}

/// True where N elements from `data` on can be loaded at once.
template <int N, class T>
inline bool is_aligned(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % (sizeof(T) * N) == 0;
}

}  // namespace heddle
