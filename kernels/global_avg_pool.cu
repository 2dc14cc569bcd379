// Global average pooling, y (batch, channels) = mean over pixels of x (batch, pixels, channels).
// Forward: a block takes some channels of an image, its lanes share the pixels out and are added by
// a fixed tree. Backward: a thread writes a run of pixels of its channels and reads dy once for all
// of them. Sums in float32. Deterministic.
#include "heddle/kernels/device/columns.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/pool2d.h"

namespace heddle::cuda {
namespace {

constexpr int64_t kPixelsPerThread = 64;  // of backward: reads are one in 65 accesses

template <class T, int N>
__global__ void global_avg_pool_forward_block_per_columns_kernel(T* y, const T* x, int64_t pixels,
                                                                 ColumnTiles tiles) {
  HEDDLE_SHARED(float, memory, [kColumnThreads * N]);
  const ColumnThread at(tiles, N);
  const int64_t image = at.piece;
  Floats<N> sum = filled_floats<N>(0.0F);
  if (at.channel < tiles.channels) {  // no early exit: block barriers follow
    const T* column = x + image * pixels * tiles.channels + at.channel;
    for (int64_t pixel = at.lane; pixel < pixels; pixel += at.lanes) {
      const auto value = load_floats<N>(column + pixel * tiles.channels);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) sum[k] += value[k];
    }
  }
  sum_lanes(at, memory, sum);
  if (at.lane != 0 || at.channel >= tiles.channels) return;
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) sum[k] /= static_cast<float>(pixels);
  store_floats(y + image * tiles.channels + at.channel, sum);
}

template <class T, int N>
__global__ void global_avg_pool_backward_thread_per_columns_kernel(T* dx, const T* dy,
                                                                   int64_t pixels,
                                                                   int64_t runs_per_image,
                                                                   int64_t n, int64_t channels) {
  const int64_t index = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (index >= n) return;
  const int64_t vectors = channels / N;
  const int64_t run = index / vectors;
  const int64_t channel = (index - run * vectors) * N;
  const int64_t image = run / runs_per_image;
  const int64_t begin = (run - image * runs_per_image) * kPixelsPerThread;
  const int64_t end = begin + kPixelsPerThread < pixels ? begin + kPixelsPerThread : pixels;
  auto value = load_floats<N>(dy + image * channels + channel);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) value[k] /= static_cast<float>(pixels);
  for (int64_t pixel = begin; pixel < end; ++pixel)
    store_floats(dx + (image * pixels + pixel) * channels + channel, value);
}

template <class T>
void forward(const GlobalAvgPoolForwardArgs& args, StreamRef stream) {
  const auto run = [&]<int N>() {
    const ColumnTiles tiles(args.channels, N);
    launch("global_avg_pool_forward", global_avg_pool_forward_block_per_columns_kernel<T, N>,
           {.grid = grid_for(args.batch * tiles.n_tiles, 1), .block = kColumnThreads}, stream,
           static_cast<T*>(args.y), static_cast<const T*>(args.x), args.pixels, tiles);
  };
  dispatch_width<T>(args.channels, run, args.y, args.x);
}

template <class T>
void backward(const GlobalAvgPoolBackwardArgs& args, StreamRef stream) {
  const auto run = [&]<int N>() {
    const int64_t runs = (args.pixels + kPixelsPerThread - 1) / kPixelsPerThread;
    const int64_t n = args.batch * runs * (args.channels / N);
    launch("global_avg_pool_backward", global_avg_pool_backward_thread_per_columns_kernel<T, N>,
           {.grid = grid_for(n, kColumnThreads), .block = kColumnThreads}, stream,
           static_cast<T*>(args.dx), static_cast<const T*>(args.dy), args.pixels, runs, n,
           args.channels);
  };
  dispatch_width<T>(args.channels, run, args.dx, args.dy);
}

}  // namespace

void global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args, StreamRef stream) {
  if (args.batch == 0 || args.channels == 0) return;
  dispatch_device_float("global_avg_pool_forward", args.dtype,
                        [&]<class T>() { forward<T>(args, stream); });
}

void global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args, StreamRef stream) {
  if (args.batch == 0 || args.channels == 0) return;
  dispatch_device_float("global_avg_pool_backward", args.dtype,
                        [&]<class T>() { backward<T>(args, stream); });
}

}  // namespace heddle::cuda
