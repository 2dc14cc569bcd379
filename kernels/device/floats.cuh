#pragma once

// Neighbouring elements of any float type, loaded and stored at once and computed in float32.
#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/vector.cuh"

namespace heddle {

/// Elements of T in the widest load.
template <class T>
inline constexpr int kWidest = kVectorBytes / static_cast<int>(sizeof(T));

template <int N>
struct Floats {
  float values[N];

  __device__ __forceinline__ float& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const float& operator[](int i) const { return values[i]; }
};

template <int N>
__device__ __forceinline__ Floats<N> filled_floats(float value) {
  Floats<N> result;
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) result[k] = value;
  return result;
}

/// N elements at `source`, which is aligned to N elements; float32 takes two loads where N is 8.
template <int N, class T>
__device__ __forceinline__ Floats<N> load_floats(const T* source) {
  constexpr int kStep = N < kWidest<T> ? N : kWidest<T>;
  Floats<N> result;
  HEDDLE_UNROLL
  for (int i = 0; i < N; i += kStep) {
    const auto vector = load<kStep>(source + i);
    HEDDLE_UNROLL
    for (int k = 0; k < kStep; ++k) result[i + k] = to_float(vector[k]);
  }
  return result;
}

template <class T, int N>
__device__ __forceinline__ void store_floats(T* target, const Floats<N>& floats) {
  constexpr int kStep = N < kWidest<T> ? N : kWidest<T>;
  HEDDLE_UNROLL
  for (int i = 0; i < N; i += kStep) {
    Vector<T, kStep> vector;
    HEDDLE_UNROLL
    for (int k = 0; k < kStep; ++k) vector[k] = from_float<T>(floats[i + k]);
    store(target + i, vector);
  }
}

/// Calls body.template operator()<N>(): the widest load, where `elements` (of a row) is a multiple
/// of it and all pointers are aligned to it, else 1.
template <class T, class Body, class... Pointers>
void dispatch_width(int64_t elements, const Body& body, const Pointers*... pointers) {
  constexpr int kWide = kWidest<T>;
  const bool aligned = ((reinterpret_cast<uintptr_t>(pointers) % kVectorBytes == 0) && ...);
  if (aligned && elements % kWide == 0) {
    body.template operator()<kWide>();
  } else {
    body.template operator()<1>();
  }
}

}  // namespace heddle
