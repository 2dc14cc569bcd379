#pragma once

// Weights (groups, out, kH, kW, in) as the data gradient wants them: (groups, in, taps, out), the
// taps of one phase, `out` filled up with zeros to whole chunks. A 32 x 32 tile of (out, in) is
// turned in shared memory, so that reads and writes are whole lines. With one tap it turns
// matrices.

#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {

struct TurnSizes {
  int64_t groups, out, padded_out, in;
  int64_t taps_h, taps_w;                      // of the phase
  int64_t tap_stride_h = 0, tap_stride_w = 0;  // in w, elements
  int64_t group_stride, out_stride;            // in w
};

inline constexpr int kTurnTile = 32;
inline constexpr int kTurnRows = 8;  // of the tile at a time

template <class T>
__global__ void __launch_bounds__(kTurnTile* kTurnRows)
    turn_kernel(T* y, const T* w, const __grid_constant__ TurnSizes sizes) {
  HEDDLE_SHARED(T, tile, [kTurnTile][kTurnTile + 1]);
  const int64_t tiles_in = (sizes.in + kTurnTile - 1) / kTurnTile;
  const int64_t tiles_out = (sizes.padded_out + kTurnTile - 1) / kTurnTile;
  int64_t index = blockIdx.x;
  const int64_t first_in = index % tiles_in * kTurnTile;
  index /= tiles_in;
  const int64_t first_out = index % tiles_out * kTurnTile;
  index /= tiles_out;
  const int64_t taps = sizes.taps_h * sizes.taps_w;
  const int64_t tap = index % taps;
  const int64_t group = index / taps;
  const T* source = w + group * sizes.group_stride + tap / sizes.taps_w * sizes.tap_stride_h +
                    tap % sizes.taps_w * sizes.tap_stride_w;
  const int lane = static_cast<int>(threadIdx.x) % kTurnTile;
  const int line = static_cast<int>(threadIdx.x) / kTurnTile;
  for (int i = line; i < kTurnTile; i += kTurnRows) {
    const int64_t out = first_out + i;
    const int64_t in = first_in + lane;
    const bool exists = out < sizes.out && in < sizes.in;
    tile[i][lane] = exists ? source[out * sizes.out_stride + in] : T{};
  }
  __syncthreads();
  T* target = y + group * sizes.in * taps * sizes.padded_out;
  for (int i = line; i < kTurnTile; i += kTurnRows) {
    const int64_t in = first_in + i;
    const int64_t out = first_out + lane;
    if (in < sizes.in && out < sizes.padded_out)
      target[(in * taps + tap) * sizes.padded_out + out] = tile[lane][i];
  }
}

/// Elements of the result.
inline int64_t turned_size(const TurnSizes& sizes) {
  return sizes.groups * sizes.in * sizes.taps_h * sizes.taps_w * sizes.padded_out;
}

template <class T>
void turn(T* y, const T* w, const TurnSizes& sizes, StreamRef stream) {
  if (turned_size(sizes) == 0) return;
  const int64_t tiles =
      int64_t{grid_for(sizes.in, kTurnTile)} * grid_for(sizes.padded_out, kTurnTile);
  launch("turn_kernel", turn_kernel<T>,
         {.grid = {grid_for(tiles * sizes.groups * sizes.taps_h * sizes.taps_w, 1)},
          .block = {kTurnTile * kTurnRows}},
         stream, y, w, sizes);
}

}  // namespace heddle
