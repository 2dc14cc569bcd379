// Batch normalisation over (rows, channels) arrays, backward (formulas: batch_norm.h). x and dy are
// read once for the sums and once for dx; where ReLU was fused its mask is computed again from x
// with forward's very bits. A block sums a piece of the rows in float32, pieces are added in
// float64. Deterministic: pieces follow from the sizes, lanes and pieces are added in fixed order.
#include "heddle/kernels/batch_norm.h"

#include "heddle/kernels/device/batch_norm.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/scratch.h"

namespace heddle::cuda {
namespace {

/// dy where y came through ReLU, else 0.
__device__ __forceinline__ float masked(float dy, float value, bool relu) {
  return relu && value <= 0.0F ? 0.0F : dy;
}

/// pieces (n_pieces, 2, channels): the sums of dy and of dy * (x - mean).
template <class T, int N>
__global__ void batch_norm_backward_sums_block_per_columns_kernel(float* pieces, const T* dy,
                                                                  const T* x, ChannelInputs inputs,
                                                                  bool relu, int64_t n_rows,
                                                                  int64_t rows_per_piece,
                                                                  ColumnTiles tiles) {
  HEDDLE_SHARED(float, constants_memory, [3 * N * kTileVectors]);
  HEDDLE_SHARED(float, memory, [2 * N * kColumnThreads]);
  const ColumnThread at(tiles, N);
  const auto constants = load_constants<N>(inputs, at, tiles, constants_memory);
  const RowRange rows = rows_of(at.piece, rows_per_piece, n_rows);
  Floats<N> sum_dy = filled_floats<N>(0.0F), sum_dy_x = filled_floats<N>(0.0F);
  if (at.channel < tiles.channels) {  // no early exit: block barriers follow
    for (int64_t row = rows.begin + at.lane; row < rows.end; row += at.lanes) {
      const int64_t place = row * tiles.channels + at.channel;
      const auto value = load_floats<N>(x + place);
      const auto incoming = load_floats<N>(dy + place);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) {
        const float gradient = masked(incoming[k], constants.normalised(value[k], k), relu);
        sum_dy[k] += gradient;
        sum_dy_x[k] += gradient * (value[k] - constants.mean[k]);
      }
    }
  }
  sum_lanes(at, memory, sum_dy);
  sum_lanes(at, memory + N * kColumnThreads, sum_dy_x);
  if (at.lane != 0 || at.channel >= tiles.channels) return;
  float* piece = pieces + 2 * at.piece * tiles.channels + at.channel;
  store_floats(piece, sum_dy);
  store_floats(piece + tiles.channels, sum_dy_x);
}

struct Sums {
  double dy, dy_x;
};

/// Adds the pieces: kFinishLanes lanes for each channel, then a tree over the lanes.
__global__ void batch_norm_backward_finish_kernel(float* dw, float* db, const float* pieces,
                                                  const float* inv_std, int64_t n_pieces,
                                                  int64_t channels) {
  HEDDLE_SHARED(Sums, lanes, [kFinishLanes][kFinishChannels]);
  const int column = static_cast<int>(threadIdx.x) % kFinishChannels;
  const int lane = static_cast<int>(threadIdx.x) / kFinishChannels;
  const int64_t channel = int64_t{blockIdx.x} * kFinishChannels + column;
  Sums total{0.0, 0.0};
  if (channel < channels) {
    for (int64_t piece = lane; piece < n_pieces; piece += kFinishLanes) {
      const float* values = pieces + 2 * piece * channels + channel;
      total.dy += static_cast<double>(values[0]);
      total.dy_x += static_cast<double>(values[channels]);
    }
  }
  lanes[lane][column] = total;
  __syncthreads();
  for (int half = kFinishLanes / 2; half > 0; half /= 2) {
    if (lane < half) {
      lanes[lane][column].dy += lanes[lane + half][column].dy;
      lanes[lane][column].dy_x += lanes[lane + half][column].dy_x;
    }
    __syncthreads();
  }
  if (lane != 0 || channel >= channels) return;
  db[channel] = static_cast<float>(lanes[0][column].dy);
  dw[channel] = static_cast<float>(lanes[0][column].dy_x * static_cast<double>(inv_std[channel]));
}

/// What the statistics' own gradients take from dx: mean_dy + (x - mean) * slope.
template <int N>
struct Corrections {
  Floats<N> mean_dy, slope;
};

template <int N>
__device__ __forceinline__ Corrections<N> load_corrections(const float* dw, const float* db,
                                                           const float* inv_std, int64_t batch_rows,
                                                           const ColumnThread& at,
                                                           const ColumnTiles& tiles,
                                                           float* memory) {
  Corrections<N> c{filled_floats<N>(0.0F), filled_floats<N>(0.0F)};
  if (at.lane == 0 && at.channel < tiles.channels) {
    const float rows_share = 1.0F / static_cast<float>(batch_rows);
    c.mean_dy = load_floats<N>(db + at.channel);
    c.slope = load_floats<N>(dw + at.channel);
    const auto inv = load_floats<N>(inv_std + at.channel);
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) {
      c.mean_dy[k] *= rows_share;
      c.slope[k] *= inv[k] * rows_share;
    }
  }
  share(at, memory, c.mean_dy);
  share(at, memory + N * kTileVectors, c.slope);
  return c;
}

/// dx = scale * (dy - mean_dy - (x - mean) * slope); in evaluation scale * dy.
template <class T, int N>
__global__ void batch_norm_backward_data_thread_per_column_kernel(
    T* dx, const T* dy, const T* x, const float* dw, const float* db, ChannelInputs inputs,
    bool relu, bool training, int64_t n_rows, int64_t batch_rows, ColumnTiles tiles) {
  HEDDLE_SHARED(float, memory, [5 * N * kTileVectors]);
  const ColumnThread at(tiles, N);
  const auto constants = load_constants<N>(inputs, at, tiles, memory);
  Corrections<N> corrections{filled_floats<N>(0.0F), filled_floats<N>(0.0F)};
  if (training) {
    corrections = load_corrections<N>(dw, db, inputs.inv_std, batch_rows, at, tiles,
                                      memory + 3 * N * kTileVectors);
  }
  if (at.channel >= tiles.channels) return;
  const RowRange rows = rows_of(at.piece, kApplyRows * at.lanes, n_rows);
  for (int64_t row = rows.begin + at.lane; row < rows.end; row += at.lanes) {
    const int64_t place = row * tiles.channels + at.channel;
    const auto value = load_floats<N>(x + place);
    auto gradient = load_floats<N>(dy + place);
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) {
      float g = masked(gradient[k], constants.normalised(value[k], k), relu);
      if (training)
        g = (g - corrections.mean_dy[k]) - (value[k] - constants.mean[k]) * corrections.slope[k];
      gradient[k] = constants.scale[k] * g;
    }
    store_floats(dx + place, gradient);
  }
}

template <class T, int N>
void sums(const BatchNormBackwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  const ColumnTiles tiles(p.channels, N);
  const RowPieces pieces(p.rows, tiles.lanes());
  const DeviceScratch scratch(pieces.n * 2 * p.channels * static_cast<int64_t>(sizeof(float)),
                              stream);
  float* memory = static_cast<float*>(scratch.data());
  if (pieces.n > 0) {
    launch("batch_norm_backward", batch_norm_backward_sums_block_per_columns_kernel<T, N>,
           {.grid = grid_for(pieces.n * tiles.n_tiles, 1), .block = kColumnThreads}, stream, memory,
           static_cast<const T*>(args.dy), static_cast<const T*>(args.x),
           ChannelInputs(p, args.mean, args.inv_std), p.relu, p.rows, pieces.rows, tiles);
  }
  launch("batch_norm_backward", batch_norm_backward_finish_kernel,
         {.grid = grid_for(p.channels, kFinishChannels), .block = kFinishChannels * kFinishLanes},
         stream, static_cast<float*>(args.dw), static_cast<float*>(args.db), memory,
         static_cast<const float*>(args.inv_std), pieces.n, p.channels);
}

template <class T, int N>
void data(const BatchNormBackwardDataArgs& args, bool training, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (args.dx == nullptr || p.rows == 0) return;
  const ColumnTiles tiles(p.channels, N);
  launch("batch_norm_backward", batch_norm_backward_data_thread_per_column_kernel<T, N>,
         {.grid = grid_for(pieces_of(p.rows, kApplyRows * tiles.lanes()) * tiles.n_tiles, 1),
          .block = kColumnThreads},
         stream, static_cast<T*>(args.dx), static_cast<const T*>(args.dy),
         static_cast<const T*>(args.x), static_cast<const float*>(args.dw),
         static_cast<const float*>(args.db), ChannelInputs(p, args.mean, args.inv_std), p.relu,
         training, p.rows, args.batch_rows, tiles);
}

}  // namespace

void batch_norm_backward(const BatchNormBackwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (p.channels == 0) return;
  dispatch_device_float("batch_norm_backward", p.dtype, [&]<class T>() {
    const auto run = [&]<int N>() {
      sums<T, N>(args, stream);
      data<T, N>({p, p.rows, args.dx, args.dw, args.db, args.dy, args.x, args.mean, args.inv_std},
                 args.training, stream);
    };
    dispatch_width<T>(p.channels, run, args.dx, args.dy, args.x, args.dw, args.db, args.mean,
                      args.inv_std, p.weight, p.bias);
  });
}

void batch_norm_backward_data(const BatchNormBackwardDataArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (p.channels == 0) return;
  dispatch_device_float("batch_norm_backward_data", p.dtype, [&]<class T>() {
    const auto run = [&]<int N>() { data<T, N>(args, true, stream); };
    dispatch_width<T>(p.channels, run, args.dx, args.dy, args.x, args.dw, args.db, args.mean,
                      args.inv_std, p.weight, p.bias);
  });
}

}  // namespace heddle::cuda
