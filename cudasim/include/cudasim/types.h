#pragma once

// The vector types and dim3 of vector_types.h, with their sizes and alignments.

// NOLINTBEGIN: the names are CUDA's.
#define CUDASIM_VECTOR_TYPES(base, scalar, align1, align2, align3, align4)             \
  struct align1 base##1 {                                                              \
    scalar x;                                                                          \
  };                                                                                   \
  struct align2 base##2 {                                                              \
    scalar x, y;                                                                       \
  };                                                                                   \
  struct align3 base##3 {                                                              \
    scalar x, y, z;                                                                    \
  };                                                                                   \
  struct align4 base##4 {                                                              \
    scalar x, y, z, w;                                                                 \
  };                                                                                   \
  constexpr base##1 make_##base##1(scalar x) { return {x}; }                           \
  constexpr base##2 make_##base##2(scalar x, scalar y) { return {x, y}; }              \
  constexpr base##3 make_##base##3(scalar x, scalar y, scalar z) { return {x, y, z}; } \
  constexpr base##4 make_##base##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

CUDASIM_VECTOR_TYPES(char, signed char, , alignas(2), , alignas(4))
CUDASIM_VECTOR_TYPES(uchar, unsigned char, , alignas(2), , alignas(4))
CUDASIM_VECTOR_TYPES(short, short, , alignas(4), , alignas(8))
CUDASIM_VECTOR_TYPES(ushort, unsigned short, , alignas(4), , alignas(8))
CUDASIM_VECTOR_TYPES(int, int, , alignas(8), , alignas(16))
CUDASIM_VECTOR_TYPES(uint, unsigned int, , alignas(8), , alignas(16))
CUDASIM_VECTOR_TYPES(long, long, , alignas(16), , alignas(16))
CUDASIM_VECTOR_TYPES(ulong, unsigned long, , alignas(16), , alignas(16))
CUDASIM_VECTOR_TYPES(longlong, long long, , alignas(16), , alignas(16))
CUDASIM_VECTOR_TYPES(ulonglong, unsigned long long, , alignas(16), , alignas(16))
CUDASIM_VECTOR_TYPES(float, float, , alignas(8), , alignas(16))
CUDASIM_VECTOR_TYPES(double, double, , alignas(16), , alignas(16))
#undef CUDASIM_VECTOR_TYPES

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
// NOLINTEND
