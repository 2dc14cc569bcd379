// Max and average pooling over channels-last images, y (N, H', W', C) of x (N, H, W, C): the
// forward passes (backward: pool2d_backward.cu). A thread computes 16 bytes of neighbouring
// channels of one window, so that a warp reads whole runs of channels. 16-bit floats are summed in
// float32 and rounded once. Deterministic. Windows hold at least one element of the image.
#include "heddle/kernels/pool2d.h"

#include <cmath>

#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/floats.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/pool2d_windows.h"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256;

/// How a thread's number is taken apart into channels, column, row and image of y.
struct Outputs {
  int64_t n = 0;  // threads
  Divisor vectors, out_w, out_h;

  Outputs(const Pool2dGeometry& g, int width)
      : n(g.batch * g.out_h * g.out_w * (g.channels / width)),
        vectors(g.channels / width),
        out_w(g.out_w),
        out_h(g.out_h) {}
};

/// One thread's window.
struct Window {
  const int64_t image;   // where x's image starts, at the thread's channels
  const int64_t output;  // in y
  const int64_t first_row, first_col;
  const PoolRange rows, cols;
};

template <int N>
__device__ __forceinline__ Window window_of(int64_t index, const Outputs& outputs,
                                            const Pool2dGeometry& g) {
  int64_t rest = index;
  const int64_t channel = outputs.vectors.split(rest) * N;
  const int64_t ow = outputs.out_w.split(rest);
  const int64_t oh = outputs.out_h.split(rest);
  return {rest * g.in_h * g.in_w * g.channels + channel,
          index * N,
          oh * g.stride_h - g.pad_h,
          ow * g.stride_w - g.pad_w,
          pool_rows(g, oh),
          pool_cols(g, ow)};
}

__device__ __forceinline__ int32_t place_of(const Window& w, const Pool2dGeometry& g, int64_t row,
                                            int64_t col) {
  return static_cast<int32_t>((row - w.first_row) * g.kernel_w + col - w.first_col);
}

template <class Place, int N>
__device__ __forceinline__ void store_places(Place* target, const int32_t (&places)[N]) {
  constexpr int kWide = kWidest<Place>;  // int64: several stores
  constexpr int kStep = N < kWide ? N : kWide;
  HEDDLE_UNROLL
  for (int i = 0; i < N; i += kStep) {
    Vector<Place, kStep> vector;
    HEDDLE_UNROLL
    for (int k = 0; k < kStep; ++k) vector[k] = static_cast<Place>(places[i + k]);
    store(target + i, vector);
  }
}

template <class T, class Place, int N>
__global__ void max_pool2d_forward_thread_per_vector_kernel(T* y, Place* places, const T* x,
                                                            Outputs outputs, Pool2dGeometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= outputs.n) return;
  const Window w = window_of<N>(index, outputs, g);
  Floats<N> best = filled_floats<N>(-INFINITY);
  int32_t place[N];
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) place[k] = place_of(w, g, w.rows.begin, w.cols.begin);
  for (int64_t row = w.rows.begin; row < w.rows.end; ++row) {
    for (int64_t col = w.cols.begin; col < w.cols.end; ++col) {
      const auto value = load_floats<N>(x + w.image + (row * g.in_w + col) * g.channels);
      const int32_t here = place_of(w, g, row, col);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) {
        const bool take = !(value[k] <= best[k]) && best[k] == best[k];  // NaN is taken, and kept
        best[k] = take ? value[k] : best[k];
        place[k] = take ? here : place[k];
      }
    }
  }
  store_floats(y + w.output, best);
  if (places != nullptr) store_places(places + w.output, place);
}

template <class T, int N>
__global__ void avg_pool2d_forward_thread_per_vector_kernel(T* y, const T* x, bool pad_counts,
                                                            Outputs outputs, Pool2dGeometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= outputs.n) return;
  const Window w = window_of<N>(index, outputs, g);
  Floats<N> sum = filled_floats<N>(0.0F);
  for (int64_t row = w.rows.begin; row < w.rows.end; ++row) {
    for (int64_t col = w.cols.begin; col < w.cols.end; ++col) {
      const auto value = load_floats<N>(x + w.image + (row * g.in_w + col) * g.channels);
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) sum[k] += value[k];
    }
  }
  const int64_t count = pad_counts ? g.kernel_h * g.kernel_w
                                   : (w.rows.end - w.rows.begin) * (w.cols.end - w.cols.begin);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) sum[k] /= static_cast<float>(count);
  store_floats(y + w.output, sum);
}

template <class T, class Place>
void max_forward(const MaxPool2dForwardArgs& args, StreamRef stream) {
  const Pool2dGeometry& g = args.geometry;
  const auto run = [&]<int N>() {
    const Outputs outputs(g, N);
    launch("max_pool2d_forward", max_pool2d_forward_thread_per_vector_kernel<T, Place, N>,
           {.grid = grid_for(outputs.n, kThreads), .block = kThreads}, stream,
           static_cast<T*>(args.y), static_cast<Place*>(args.places), static_cast<const T*>(args.x),
           outputs, g);
  };
  dispatch_width<T>(g.channels, run, args.y, args.x, args.places);
}

template <class T>
void avg_forward(const AvgPool2dForwardArgs& args, StreamRef stream) {
  const Pool2dGeometry& g = args.geometry;
  const auto run = [&]<int N>() {
    const Outputs outputs(g, N);
    launch("avg_pool2d_forward", avg_pool2d_forward_thread_per_vector_kernel<T, N>,
           {.grid = grid_for(outputs.n, kThreads), .block = kThreads}, stream,
           static_cast<T*>(args.y), static_cast<const T*>(args.x), args.count_include_pad, outputs,
           g);
  };
  dispatch_width<T>(g.channels, run, args.y, args.x);
}

bool is_empty(const Pool2dGeometry& g) { return g.batch == 0 || g.channels == 0; }

}  // namespace

void max_pool2d_forward(const MaxPool2dForwardArgs& args, StreamRef stream) {
  if (is_empty(args.geometry)) return;
  dispatch_device_float("max_pool2d_forward", args.geometry.dtype, [&]<class T>() {
    if (args.place_dtype == DType::kUInt8) {
      max_forward<T, uint8_t>(args, stream);
    } else {
      max_forward<T, int64_t>(args, stream);
    }
  });
}

void avg_pool2d_forward(const AvgPool2dForwardArgs& args, StreamRef stream) {
  if (is_empty(args.geometry)) return;
  dispatch_device_float("avg_pool2d_forward", args.geometry.dtype,
                        [&]<class T>() { avg_forward<T>(args, stream); });
}

}  // namespace heddle::cuda
