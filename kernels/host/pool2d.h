#pragma once

#include <algorithm>
#include <type_traits>

#include "heddle/core/dtype.h"

/// What the pooling kernels of the CPU share.
namespace heddle::cpu {

inline constexpr int64_t kPoolGrain = 1 << 14;  // elements that a piece writes
inline constexpr int64_t kPoolLanes = 16;       // channels whose sums lie in registers
inline constexpr int64_t kPoolChunk = 64;       // channels whose sums lie on the stack

template <class T>
using PoolCompute = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline int64_t pool_rows_per_piece(int64_t row_elements) {
  return std::max<int64_t>(1, kPoolGrain / std::max<int64_t>(1, row_elements));
}

/// Calls body(channel, n) for all channels. Of types of 4 bytes and more n is the constant
/// kPoolLanes for all but the last ones, so that sums stay in registers; of 16-bit floats up to
/// kPoolChunk, in loops that the compiler turns into vectors.
template <class T, class Body>
HEDDLE_INLINE void for_channel_chunks(int64_t channels, const Body& body) {
  int64_t c = 0;
  if constexpr (sizeof(T) >= 4) {
    for (; c + kPoolLanes <= channels; c += kPoolLanes)
      body(c, std::integral_constant<int64_t, kPoolLanes>());
  }
  for (; c < channels; c += kPoolChunk)
    body(c, channels - c < kPoolChunk ? channels - c : kPoolChunk);
}

/// Calls body.template operator()<T, Place>() for the dtypes of an image and of places in windows.
template <class Body>
void dispatch_places(DType dtype, DType place_dtype, const Body& body) {
  dispatch_float(dtype, [&]<class T>() {
    if (place_dtype == DType::kUInt8) {
      body.template operator()<T, uint8_t>();
    } else {
      body.template operator()<T, int64_t>();
    }
  });
}

}  // namespace heddle::cpu
