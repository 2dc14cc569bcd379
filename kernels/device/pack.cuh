#pragma once

// Copies of operands that 16-byte loads cannot take as they are: an odd length, address or stride,
// or neither index with stride 1. Lines come to lie one after another, each filled up with zeros to
// whole chunks of 16 bytes.

#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/vector.cuh"

namespace heddle {

/// (batch, lines, length), any strides, elements.
struct PackSource {
  int64_t batch, lines, length;
  int64_t batch_stride, line_stride, stride;
};

inline constexpr int kPackThreads = 256;

/// `y` (batch, lines, padded length). T is any type of the right size: bits are copied.
template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(T* y, const T* x, const __grid_constant__ PackSource source) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  const int64_t chunks = (source.length + kVector - 1) / kVector;
  const int64_t index = int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  if (index >= source.batch * source.lines * chunks) return;
  const int64_t first = index % chunks * kVector;
  const int64_t line = index / chunks % source.lines;
  const int64_t matrix = index / chunks / source.lines;
  const T* from =
      x + matrix * source.batch_stride + line * source.line_stride + first * source.stride;
  Vector<T, kVector> chunk{};
  HEDDLE_UNROLL
  for (int i = 0; i < kVector; ++i) {
    if (first + i < source.length) chunk[i] = from[i * source.stride];
  }
  store(y + index * kVector, chunk);
}

/// Bytes of the packed copy.
template <class T>
int64_t packed_bytes(const PackSource& source) {
  constexpr int64_t kVector = 16 / static_cast<int64_t>(sizeof(T));
  return source.batch * source.lines * ((source.length + kVector - 1) / kVector) * 16;
}

template <class T>
void pack(T* y, const T* x, const PackSource& source, StreamRef stream) {
  launch("pack_kernel", pack_kernel<T>,
         {.grid = {grid_for(packed_bytes<T>(source) / 16, kPackThreads)}, .block = {kPackThreads}},
         stream, y, x, source);
}

}  // namespace heddle
