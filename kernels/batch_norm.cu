// Batch normalisation over (rows, channels) arrays, forward (formulas: batch_norm.h; Ioffe &
// Szegedy 2015). The variance never comes from a difference of raw squares: a thread takes
// kBlockRows values about their own mean and merges them into what it has by Chan's formula (Chan,
// Golub & LeVeque 1983), lanes of a block are merged by a fixed tree, pieces of rows in float64. x
// is read once for the statistics and once for y. Computed in float32. Deterministic: pieces follow
// from the sizes.
#include "heddle/kernels/batch_norm.h"

#include "heddle/kernels/device/batch_norm.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/scratch.h"

namespace heddle::cuda {
namespace {

constexpr int kBlockRows = 4;  // values of a channel that a thread holds at a time

/// Merges `count` rows, `step` apart, into the moments of each channel.
template <int N, class T>
__device__ __forceinline__ void merge_rows(const T* x, int count, int64_t step, float seen,
                                           Floats<N>& mean, Floats<N>& m2) {
  Floats<N> rows[kBlockRows];
  HEDDLE_UNROLL
  for (int j = 0; j < kBlockRows; ++j)
    if (j < count) rows[j] = load_floats<N>(x + j * step);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) {
    Moments<float> block{static_cast<float>(count), 0.0F, 0.0F};
    HEDDLE_UNROLL
    for (int j = 0; j < kBlockRows; ++j)
      if (j < count) block.mean += rows[j][k];
    block.mean /= block.n;
    HEDDLE_UNROLL
    for (int j = 0; j < kBlockRows; ++j) {
      const float centred = j < count ? rows[j][k] - block.mean : 0.0F;
      block.m2 += centred * centred;
    }
    const Moments<float> all = merged(Moments<float>{seen, mean[k], m2[k]}, block);
    mean[k] = all.mean;
    m2[k] = all.m2;
  }
}

/// Merges the lanes of a block; lane 0 has the result.
template <int N>
__device__ __forceinline__ void merge_lanes(const ColumnThread& at, float n, float* memory,
                                            Floats<N>& mean, Floats<N>& m2) {
  const int thread = static_cast<int>(threadIdx.x);
  float* counts = memory + 2 * N * kColumnThreads;
  const auto place = [&](int k, int of) { return 2 * k * kColumnThreads + of; };
  counts[thread] = n;
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) {
    memory[place(k, thread)] = mean[k];
    memory[place(k, thread) + kColumnThreads] = m2[k];
  }
  __syncthreads();
  for (int half = at.lanes / 2; half > 0; half /= 2) {
    if (at.lane < half) {
      const int other = thread + half * (kColumnThreads / at.lanes);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) {
        const Moments<float> all = merged(Moments<float>{n, mean[k], m2[k]},
                                          Moments<float>{counts[other], memory[place(k, other)],
                                                         memory[place(k, other) + kColumnThreads]});
        memory[place(k, thread)] = mean[k] = all.mean;
        memory[place(k, thread) + kColumnThreads] = m2[k] = all.m2;
      }
      counts[thread] = n = n + counts[other];
    }
    __syncthreads();
  }
}

/// pieces (n_pieces, 2, channels): mean and M2 of each piece of rows.
template <class T, int N>
__global__ void batch_norm_forward_block_per_columns_kernel(float* pieces, const T* x,
                                                            int64_t n_rows, int64_t rows_per_piece,
                                                            ColumnTiles tiles) {
  HEDDLE_SHARED(float, memory, [(2 * N + 1) * kColumnThreads]);
  const ColumnThread at(tiles, N);
  const RowRange rows = rows_of(at.piece, rows_per_piece, n_rows);
  Floats<N> mean = filled_floats<N>(0.0F), m2 = filled_floats<N>(0.0F);
  float seen = 0.0F;
  if (at.channel < tiles.channels) {  // no early exit: block barriers follow
    for (int64_t row = rows.begin + at.lane; row < rows.end; row += kBlockRows * at.lanes) {
      const int64_t left = (rows.end - row + at.lanes - 1) / at.lanes;
      const int count = left < kBlockRows ? static_cast<int>(left) : kBlockRows;
      merge_rows<N>(x + row * tiles.channels + at.channel, count, at.lanes * tiles.channels, seen,
                    mean, m2);
      seen += static_cast<float>(count);
    }
  }
  merge_lanes(at, seen, memory, mean, m2);
  if (at.lane != 0 || at.channel >= tiles.channels) return;
  float* piece = pieces + 2 * at.piece * tiles.channels + at.channel;
  store_floats(piece, mean);
  store_floats(piece + tiles.channels, m2);
}

/// Merges the pieces in float64: kFinishLanes lanes for each channel, then a tree over the lanes.
__global__ void batch_norm_forward_finish_kernel(float* mean, float* var, float* inv_std,
                                                 const float* pieces, int64_t n_pieces,
                                                 int64_t rows_per_piece, int64_t n_rows,
                                                 int64_t channels, double eps) {
  HEDDLE_SHARED(Moments<double>, lanes, [kFinishLanes][kFinishChannels]);
  const int column = static_cast<int>(threadIdx.x) % kFinishChannels;
  const int lane = static_cast<int>(threadIdx.x) / kFinishChannels;
  const int64_t channel = int64_t{blockIdx.x} * kFinishChannels + column;
  Moments<double> total{0.0, 0.0, 0.0};
  if (channel < channels) {
    for (int64_t piece = lane; piece < n_pieces; piece += kFinishLanes) {
      const RowRange rows = rows_of(piece, rows_per_piece, n_rows);
      const float* values = pieces + 2 * piece * channels + channel;
      total =
          merged(total, {static_cast<double>(rows.end - rows.begin), static_cast<double>(values[0]),
                         static_cast<double>(values[channels])});
    }
  }
  lanes[lane][column] = total;
  __syncthreads();
  for (int half = kFinishLanes / 2; half > 0; half /= 2) {
    if (lane < half) lanes[lane][column] = merged(lanes[lane][column], lanes[lane + half][column]);
    __syncthreads();
  }
  if (lane != 0 || channel >= channels) return;
  total = lanes[0][column];
  mean[channel] = static_cast<float>(total.mean);
  var[channel] = n_rows == 0 ? 0.0F : static_cast<float>(total.m2 / static_cast<double>(n_rows));
  if (inv_std != nullptr) inv_std[channel] = inverse_std(var[channel], eps);
}

__global__ void batch_norm_inference_thread_per_channel_kernel(float* inv_std, const float* var,
                                                               int64_t channels, double eps) {
  const int64_t channel = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (channel < channels) inv_std[channel] = inverse_std(var[channel], eps);
}

template <class T, int N>
__global__ void batch_norm_apply_thread_per_column_kernel(T* y, const T* x, ChannelInputs inputs,
                                                          bool relu, int64_t n_rows,
                                                          ColumnTiles tiles) {
  HEDDLE_SHARED(float, memory, [3 * N * kTileVectors]);
  const ColumnThread at(tiles, N);
  const ChannelConstants<N> constants = load_constants<N>(inputs, at, tiles, memory);
  if (at.channel >= tiles.channels) return;
  const RowRange rows = rows_of(at.piece, kApplyRows * at.lanes, n_rows);
  for (int64_t row = rows.begin + at.lane; row < rows.end; row += at.lanes) {
    const int64_t place = row * tiles.channels + at.channel;
    auto value = load_floats<N>(x + place);
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) {
      value[k] = constants.normalised(value[k], k);
      if (relu && value[k] < 0.0F) value[k] = 0.0F;  // NaN stays NaN
    }
    store_floats(y + place, value);
  }
}

__global__ void batch_norm_move_running_thread_per_channel_kernel(
    float* running_mean, float* running_var, const float* mean, const float* var, int64_t channels,
    double momentum, double unbiased) {
  const int64_t channel = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (channel >= channels) return;
  const auto moved = [=](float running, double now) {
    return static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * now);
  };
  running_mean[channel] = moved(running_mean[channel], static_cast<double>(mean[channel]));
  running_var[channel] = moved(running_var[channel], static_cast<double>(var[channel]) * unbiased);
}

__global__ void batch_norm_variance_thread_per_channel_kernel(float* var, const float* inv_std,
                                                              int64_t channels, double eps) {
  const int64_t channel = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (channel >= channels) return;
  const double inverse = static_cast<double>(inv_std[channel]);
  const double value = 1.0 / (inverse * inverse) - eps;
  var[channel] = value < 0.0 ? 0.0F : static_cast<float>(value);  // NaN stays NaN
}

/// inv_std may be null.
template <class T>
void statistics(const BatchNormStatisticsArgs& args, void* inv_std, double eps, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  const auto run = [&]<int N>() {
    const ColumnTiles tiles(p.channels, N);
    const RowPieces pieces(p.rows, tiles.lanes());
    const DeviceScratch scratch(pieces.n * 2 * p.channels * static_cast<int64_t>(sizeof(float)),
                                stream);
    float* memory = static_cast<float*>(scratch.data());
    if (pieces.n > 0) {
      launch("batch_norm_forward", batch_norm_forward_block_per_columns_kernel<T, N>,
             {.grid = grid_for(pieces.n * tiles.n_tiles, 1), .block = kColumnThreads}, stream,
             memory, static_cast<const T*>(args.x), p.rows, pieces.rows, tiles);
    }
    launch("batch_norm_forward", batch_norm_forward_finish_kernel,
           {.grid = grid_for(p.channels, kFinishChannels), .block = kFinishChannels * kFinishLanes},
           stream, static_cast<float*>(args.mean), static_cast<float*>(args.var),
           static_cast<float*>(inv_std), memory, pieces.n, pieces.rows, p.rows, p.channels, eps);
  };
  dispatch_width<T>(p.channels, run, args.x);
}

template <class T>
void apply(const BatchNormProblem& p, void* y, const void* x, const void* mean, const void* inv_std,
           StreamRef stream) {
  if (p.rows == 0) return;
  const auto run = [&]<int N>() {
    const ColumnTiles tiles(p.channels, N);
    launch("batch_norm_apply", batch_norm_apply_thread_per_column_kernel<T, N>,
           {.grid = grid_for(pieces_of(p.rows, kApplyRows * tiles.lanes()) * tiles.n_tiles, 1),
            .block = kColumnThreads},
           stream, static_cast<T*>(y), static_cast<const T*>(x), ChannelInputs(p, mean, inv_std),
           p.relu, p.rows, tiles);
  };
  dispatch_width<T>(p.channels, run, y, x, mean, inv_std, p.weight, p.bias);
}

}  // namespace

void batch_norm_inference(const BatchNormInferenceArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (p.channels == 0) return;
  launch("batch_norm_inference", batch_norm_inference_thread_per_channel_kernel,
         {.grid = grid_for(p.channels, kColumnThreads), .block = kColumnThreads}, stream,
         static_cast<float*>(args.inv_std), static_cast<const float*>(args.var), p.channels,
         args.eps);
  dispatch_device_float("batch_norm_inference", p.dtype, [&]<class T>() {
    apply<T>(p, args.y, args.x, args.mean, args.inv_std, stream);
  });
}

void batch_norm_forward(const BatchNormForwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (p.channels == 0) return;
  dispatch_device_float("batch_norm_forward", p.dtype, [&]<class T>() {
    statistics<T>({p, args.mean, args.var, args.x}, args.inv_std, args.eps, stream);
    apply<T>(p, args.y, args.x, args.mean, args.inv_std, stream);
  });
}

void batch_norm_statistics(const BatchNormStatisticsArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  if (p.channels == 0) return;
  dispatch_device_float("batch_norm_statistics", p.dtype,
                        [&]<class T>() { statistics<T>(args, nullptr, 0.0, stream); });
}

void batch_norm_move_running(const BatchNormRunningArgs& args, StreamRef stream) {
  const int64_t channels = args.problem.channels;
  if (channels == 0) return;
  const double rows = static_cast<double>(args.problem.rows);
  launch("batch_norm_move_running", batch_norm_move_running_thread_per_channel_kernel,
         {.grid = grid_for(channels, kColumnThreads), .block = kColumnThreads}, stream,
         static_cast<float*>(args.running_mean), static_cast<float*>(args.running_var),
         static_cast<const float*>(args.mean), static_cast<const float*>(args.var), channels,
         args.momentum, rows / (rows - 1.0));
}

void batch_norm_variance(void* var, const void* inv_std, double eps, int64_t channels,
                         StreamRef stream) {
  if (channels == 0) return;
  launch("batch_norm_variance", batch_norm_variance_thread_per_channel_kernel,
         {.grid = grid_for(channels, kColumnThreads), .block = kColumnThreads}, stream,
         static_cast<float*>(var), static_cast<const float*>(inv_std), channels, eps);
}

}  // namespace heddle::cuda
