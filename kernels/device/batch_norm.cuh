#pragma once

// What batch_norm.cu and batch_norm_backward.cu share.
#include "heddle/kernels/batch_norm.h"
#include "heddle/kernels/device/columns.cuh"

namespace heddle {

inline constexpr int kTileVectors = 32;
inline constexpr int64_t kApplyRows = 8;        // of a thread: constants are read once for them
inline constexpr int64_t kStatRows = 16;        // of a thread, at least
inline constexpr int64_t kMaxStatPieces = 512;  // merged by kFinishLanes
inline constexpr int kFinishChannels = 32;
inline constexpr int kFinishLanes = 16;

struct RowRange {
  int64_t begin, end;
};

__device__ __forceinline__ RowRange rows_of(int64_t piece, int64_t rows_per_piece, int64_t n_rows) {
  const int64_t begin = piece * rows_per_piece;
  return {begin, begin + rows_per_piece < n_rows ? begin + rows_per_piece : n_rows};
}

inline int64_t pieces_of(int64_t n_rows, int64_t rows_per_piece) {
  return (n_rows + rows_per_piece - 1) / rows_per_piece;
}

/// The pieces that a sum over rows is cut into.
struct RowPieces {
  int64_t rows = 0;  // of a piece
  int64_t n = 0;

  RowPieces(int64_t n_rows, int lanes)
      : rows(std::max(kStatRows * lanes, pieces_of(n_rows, kMaxStatPieces))),
        n(pieces_of(n_rows, rows)) {}
};

__device__ __forceinline__ float inverse_std(float var, double eps) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(var) + eps));
}

/// n values: mean, and M2, the sum of squares about it.
template <class C>
struct Moments {
  C n, mean, m2;
};

template <class C>
__device__ __forceinline__ Moments<C> merged(const Moments<C>& a, const Moments<C>& b) {
  if (b.n == C(0)) return a;
  const C n = a.n + b.n, share = b.n / n, delta = b.mean - a.mean;
  return {n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.n * share};
}

/// Per-channel arrays (channels); weight and bias may be null.
struct ChannelInputs {
  const float* mean;
  const float* inv_std;
  const float* weight;
  const float* bias;

  ChannelInputs(const BatchNormProblem& p, const void* means, const void* inv_stds)
      : mean(static_cast<const float*>(means)),
        inv_std(static_cast<const float*>(inv_stds)),
        weight(static_cast<const float*>(p.weight)),
        bias(static_cast<const float*>(p.bias)) {}
};

/// A thread's channels.
template <int N>
struct ChannelConstants {
  Floats<N> mean, scale, bias;

  /// The result before ReLU, with the same bits in both directions. Subtracting first keeps the
  /// digits where the mean is large.
  __device__ __forceinline__ float normalised(float x, int k) const {
    return fmaf(x - mean[k], scale[k], bias[k]);
  }
};

/// N values that lane 0 has and all lanes get. `memory` is shared, kTileVectors * N floats.
template <int N>
__device__ __forceinline__ void share(const ColumnThread& at, float* memory, Floats<N>& values) {
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k)
    if (at.lane == 0) memory[k * kTileVectors + at.vector] = values[k];
  __syncthreads();
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) values[k] = memory[k * kTileVectors + at.vector];
}

/// Read by lane 0 alone, for all. All threads of the block call it. `memory` is shared,
/// 3 * kTileVectors * N floats.
template <int N>
__device__ __forceinline__ ChannelConstants<N> load_constants(const ChannelInputs& inputs,
                                                              const ColumnThread& at,
                                                              const ColumnTiles& tiles,
                                                              float* memory) {
  ChannelConstants<N> c{filled_floats<N>(0.0F), filled_floats<N>(0.0F), filled_floats<N>(0.0F)};
  if (at.lane == 0 && at.channel < tiles.channels) {
    c.mean = load_floats<N>(inputs.mean + at.channel);
    c.scale = load_floats<N>(inputs.inv_std + at.channel);
    if (inputs.weight != nullptr) {
      const auto weight = load_floats<N>(inputs.weight + at.channel);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) c.scale[k] *= weight[k];
    }
    if (inputs.bias != nullptr) c.bias = load_floats<N>(inputs.bias + at.channel);
  }
  share(at, memory, c.mean);
  share(at, memory + N * kTileVectors, c.scale);
  share(at, memory + 2 * N * kTileVectors, c.bias);
  return c;
}

}  // namespace heddle
