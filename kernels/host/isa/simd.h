#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/// Vectors of the instruction set that this file is compiled for: the compiler's own vector types,
/// so arithmetic is written with operators. Included by kernels/host/isa/*.cpp alone. Everything is
/// in an unnamed namespace and inlined, so no symbol can be shared between instruction sets.
namespace heddle::cpu::HEDDLE_ISA_NAMESPACE {
namespace {

#define HEDDLE_ISA_INLINE [[gnu::always_inline]] inline

#if defined(HEDDLE_ISA_avx512)
constexpr int kVectorBytes = 64;
#elif defined(HEDDLE_ISA_avx2)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
HEDDLE_ISA_INLINE Vector<T> load(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

template <class T>
HEDDLE_ISA_INLINE void store(T* p, Vector<T> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

#if defined(HEDDLE_ISA_avx512)
// The first n values of a vector, n from 1 to kLanes; the others are zero, and not touched.
HEDDLE_ISA_INLINE Vector<float> load_first(const float* p, int64_t n) {
  return (Vector<float>)_mm512_maskz_loadu_ps((__mmask16)((1U << n) - 1), p);
}
HEDDLE_ISA_INLINE Vector<double> load_first(const double* p, int64_t n) {
  return (Vector<double>)_mm512_maskz_loadu_pd((__mmask8)((1U << n) - 1), p);
}
HEDDLE_ISA_INLINE void store_first(float* p, Vector<float> v, int64_t n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1U << n) - 1), (__m512)v);
}
HEDDLE_ISA_INLINE void store_first(double* p, Vector<double> v, int64_t n) {
  _mm512_mask_storeu_pd(p, (__mmask8)((1U << n) - 1), (__m512d)v);
}
#endif

// a * b + c in one rounding where the instruction set has it; and one value in all lanes.
#if defined(HEDDLE_ISA_avx512)
HEDDLE_ISA_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
HEDDLE_ISA_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
HEDDLE_ISA_INLINE Vector<float> splat(float x) { return (Vector<float>)_mm512_set1_ps(x); }
HEDDLE_ISA_INLINE Vector<double> splat(double x) { return (Vector<double>)_mm512_set1_pd(x); }
#elif defined(HEDDLE_ISA_avx2)
HEDDLE_ISA_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
HEDDLE_ISA_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
HEDDLE_ISA_INLINE Vector<float> splat(float x) { return (Vector<float>)_mm256_set1_ps(x); }
HEDDLE_ISA_INLINE Vector<double> splat(double x) { return (Vector<double>)_mm256_set1_pd(x); }
#else
#if defined(__aarch64__)
HEDDLE_ISA_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
HEDDLE_ISA_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
template <class V>
HEDDLE_ISA_INLINE V fma(V a, V b, V c) {
  return a * b + c;
}
#endif
HEDDLE_ISA_INLINE Vector<float> splat(float x) { return Vector<float>{x, x, x, x}; }
HEDDLE_ISA_INLINE Vector<double> splat(double x) { return Vector<double>{x, x}; }
#endif

// max(0, x) where x is a number; NaN stays NaN, as the processors' instruction has it.
#if defined(HEDDLE_ISA_avx512)
HEDDLE_ISA_INLINE Vector<float> relu(Vector<float> x) {
  return (Vector<float>)_mm512_max_ps(_mm512_setzero_ps(), (__m512)x);
}
#elif defined(HEDDLE_ISA_avx2)
HEDDLE_ISA_INLINE Vector<float> relu(Vector<float> x) {
  return (Vector<float>)_mm256_max_ps(_mm256_setzero_ps(), (__m256)x);
}
#else
HEDDLE_ISA_INLINE Vector<float> relu(Vector<float> x) {
  return x < Vector<float>{} ? Vector<float>{} : x;
}
#endif
HEDDLE_ISA_INLINE Vector<double> relu(Vector<double> x) {
  return x < Vector<double>{} ? Vector<double>{} : x;
}

// a0 b0 a1 b1 ... of the lower and of the upper halves.
template <class V>
HEDDLE_ISA_INLINE V interleave_low(V a, V b) {
  if constexpr (sizeof(V) / sizeof(a[0]) == 2) {
    return __builtin_shufflevector(a, b, 0, 2);
  } else if constexpr (sizeof(V) / sizeof(a[0]) == 4) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  } else if constexpr (sizeof(V) / sizeof(a[0]) == 8) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  } else {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
}
template <class V>
HEDDLE_ISA_INLINE V interleave_high(V a, V b) {
  if constexpr (sizeof(V) / sizeof(a[0]) == 2) {
    return __builtin_shufflevector(a, b, 1, 3);
  } else if constexpr (sizeof(V) / sizeof(a[0]) == 4) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else if constexpr (sizeof(V) / sizeof(a[0]) == 8) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
  }
}

/// Transposes a square block of kLanes vectors in registers: log2(kLanes) perfect shuffles.
template <class T>
HEDDLE_ISA_INLINE void transpose(Vector<T> (&rows)[kLanes<T>]) {
  constexpr int n = kLanes<T>;
#pragma GCC unroll 4
  for (int stage = 1; stage < n; stage *= 2) {
    Vector<T> shuffled[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      shuffled[2 * i] = interleave_low(rows[i], rows[i + n / 2]);
      shuffled[2 * i + 1] = interleave_high(rows[i], rows[i + n / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = shuffled[i];
  }
}

}  // namespace
}  // namespace heddle::cpu::HEDDLE_ISA_NAMESPACE
