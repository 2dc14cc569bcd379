#pragma once

// The tensor core's matrix product of one warp, PTX ISA "mma.m16n8k16 with floating point type":
// d (16, 8) += a (16, 16) b (16, 8), 16-bit a and b, float32 d. With g = lane / 4, t = lane % 4 a
// lane holds, two 16-bit elements a register, the lower index in the lower half:
//   a[0] (g, 2t..), a[1] (g + 8, 2t..), a[2] (g, 2t + 8..), a[3] (g + 8, 2t + 8..)
//   b[0] (2t.., g), b[1] (2t + 8.., g)
//   d[0], d[1] (g, 2t..), d[2], d[3] (g + 8, 2t..)

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "heddle/core/dtype.h"

namespace heddle {

#ifdef __CUDASIM__

struct MmaOperands {
  float a[8];
  float b[4];
};

/// The model: sums in float32, in the order of k. The device adds in an order of its own.
template <class T>
HEDDLE_INLINE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MmaOperands mine;
  for (int i = 0; i < 8; ++i) {
    T half;
    half.bits = static_cast<uint16_t>(a[i / 2] >> (16 * (i % 2)));
    mine.a[i] = static_cast<float>(half);
  }
  for (int i = 0; i < 4; ++i) {
    T half;
    half.bits = static_cast<uint16_t>(b[i / 2] >> (16 * (i % 2)));
    mine.b[i] = static_cast<float>(half);
  }
  const auto* lanes = static_cast<const MmaOperands*>(
      cudasim::warp_exchange(0xffffffffU, &mine, sizeof(MmaOperands)));
  const int lane = cudasim::lane_index();
  const int row = lane / 4;
  const int column = lane % 4 * 2;
  for (int k = 0; k < 16; ++k) {
    const int owner = k % 8 / 2;
    const int half = k % 2;
    const MmaOperands& of_row = lanes[row * 4 + owner];
    const float upper = of_row.a[k / 8 * 4 + half];
    const float lower = of_row.a[k / 8 * 4 + 2 + half];
    const float left = lanes[column * 4 + owner].b[k / 8 * 2 + half];
    const float right = lanes[(column + 1) * 4 + owner].b[k / 8 * 2 + half];
    d[0] += upper * left;
    d[1] += upper * right;
    d[2] += lower * left;
    d[3] += lower * right;
  }
}

#else

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>);
  if constexpr (std::is_same_v<T, Float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

#endif

}  // namespace heddle
