#pragma once

// Shared memory, as nvcc and as cudasim have it.
//   HEDDLE_SHARED(float, tile, [32][33]);   an array (or, without the third argument, one value)
//   float* rows = dynamic_shared<float>();  what the launch asked for by shared_bytes
// Both lie at multiples of 16 bytes. Under cudasim they have a name, a size and red zones, and hold
// nothing at a block's start.

#ifdef __CUDASIM__

#define HEDDLE_SHARED(type, name, ...)                                                            \
  typedef type name##_in_shared __VA_ARGS__; /* NOLINT: an alias cannot take the extents apart */ \
  static constexpr ::cudasim::SharedSite name##_site{                                             \
      #name, sizeof(name##_in_shared),                                                            \
      alignof(name##_in_shared) < 16 ? 16 : alignof(name##_in_shared), __FILE__, __LINE__};       \
  name##_in_shared& name = *static_cast<name##_in_shared*>(::cudasim::shared_variable(name##_site))

namespace heddle {

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  return static_cast<T*>(::cudasim::dynamic_shared());
}

}  // namespace heddle

#else

#define HEDDLE_SHARED(type, name, ...) __shared__ __align__(16) type name __VA_ARGS__

extern __shared__ __align__(16) unsigned char heddle_dynamic_shared[];

namespace heddle {

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  return reinterpret_cast<T*>(heddle_dynamic_shared);
}

}  // namespace heddle

#endif
