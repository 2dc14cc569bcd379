// Max and average pooling over channels-last images, backward: dx (N, H, W, C) of dy (N, H', W', C)
// and, for the maximum, its place in each window. Nothing is scattered with atomics:
//   windows that do not overlap (kernel <= stride)  a thread owns a window and the pixels up to the
//     next one, reads dy once and writes all of them
//   windows that do                                 a thread owns 16 bytes of dx and adds what the
//     windows that hold it send it, in a fixed order
// Sums in float32, rounded once. Deterministic.
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/floats.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/pool2d.h"
#include "heddle/kernels/pool2d_windows.h"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256;

/// How a thread's number is taken apart into channels, column, row and image.
struct Pixels {
  int64_t n = 0;  // threads
  Divisor vectors, w, h;

  Pixels(const Pool2dGeometry& g, int64_t height, int64_t width, int vector)
      : n(g.batch * height * width * (g.channels / vector)),
        vectors(g.channels / vector),
        w(width),
        h(height) {}
};

struct Pixel {
  int64_t image, row, col, channel;
};

template <int N>
__device__ __forceinline__ Pixel pixel_of(int64_t index, const Pixels& pixels) {
  Pixel p;
  p.channel = pixels.vectors.split(index) * N;
  p.col = pixels.w.split(index);
  p.row = pixels.h.split(index);
  p.image = index;
  return p;
}

/// What one window sends to the elements it holds: dy to the place of the maximum.
template <class T, class Place, int N>
struct MaxSource {
  const T* dy;
  const Place* places;

  struct Window {
    Floats<N> dy;
    Vector<Place, N> places;

    __device__ __forceinline__ float sent_to(int k, int64_t place) const {
      return places[k] == static_cast<Place>(place) ? dy[k] : 0.0F;
    }
  };
  __device__ __forceinline__ Window window(int64_t at, int64_t, int64_t) const {
    return {load_floats<N>(dy + at), load<N>(places + at)};
  }
};

/// dy / count to all of them.
template <class T, int N>
struct AvgSource {
  const T* dy;
  Pool2dGeometry geometry;
  bool count_include_pad;

  struct Window {
    Floats<N> share;

    __device__ __forceinline__ float sent_to(int k, int64_t) const { return share[k]; }
  };
  __device__ __forceinline__ Window window(int64_t at, int64_t oh, int64_t ow) const {
    Window result{load_floats<N>(dy + at)};
    const auto count = static_cast<float>(pool_divisor(geometry, count_include_pad, oh, ow));
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) result.share[k] /= count;
    return result;
  }
};

/// From a window's start to the next one's, the image's ends taken in.
__device__ __forceinline__ PoolRange cell(int64_t out, int64_t n_out, int64_t stride, int64_t pad,
                                          int64_t size) {
  return {out == 0 ? 0 : out * stride - pad, out + 1 == n_out ? size : (out + 1) * stride - pad};
}

template <int N, class T, class Source>
__global__ void pool2d_backward_thread_per_window_kernel(T* dx, Source source, Pixels outputs,
                                                         Pool2dGeometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= outputs.n) return;
  const Pixel out = pixel_of<N>(index, outputs);
  const auto window = source.window(index * N, out.row, out.col);
  const PoolRange rows = cell(out.row, g.out_h, g.stride_h, g.pad_h, g.in_h);
  const PoolRange cols = cell(out.col, g.out_w, g.stride_w, g.pad_w, g.in_w);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      const int64_t in_row = row + g.pad_h - out.row * g.stride_h;
      const int64_t in_col = col + g.pad_w - out.col * g.stride_w;
      const bool inside = in_row < g.kernel_h && in_col < g.kernel_w;
      Floats<N> value;
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k)
        value[k] = inside ? window.sent_to(k, in_row * g.kernel_w + in_col) : 0.0F;
      const int64_t pixel = (out.image * g.in_h + row) * g.in_w + col;
      store_floats(dx + pixel * g.channels + out.channel, value);
    }
  }
}

template <int N, class T, class Source>
__global__ void pool2d_backward_thread_per_vector_kernel(T* dx, Source source, Pixels inputs,
                                                         Pool2dGeometry g) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= inputs.n) return;
  const Pixel in = pixel_of<N>(index, inputs);
  const PoolRange rows = pool_windows_of(in.row, g.kernel_h, g.stride_h, g.pad_h, g.out_h);
  const PoolRange cols = pool_windows_of(in.col, g.kernel_w, g.stride_w, g.pad_w, g.out_w);
  Floats<N> sum = filled_floats<N>(0.0F);
  for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
    for (int64_t ow = cols.begin; ow < cols.end; ++ow) {
      const int64_t pixel = (in.image * g.out_h + oh) * g.out_w + ow;
      const auto window = source.window(pixel * g.channels + in.channel, oh, ow);
      const int64_t place =
          (in.row + g.pad_h - oh * g.stride_h) * g.kernel_w + in.col + g.pad_w - ow * g.stride_w;
      HEDDLE_UNROLL
      for (int k = 0; k < N; ++k) sum[k] += window.sent_to(k, place);
    }
  }
  store_floats(dx + index * N, sum);
}

template <int N, class T, class Source>
void run(const char* name, void* dx, const Source& source, const Pool2dGeometry& g,
         StreamRef stream) {
  const bool overlap = g.kernel_h > g.stride_h || g.kernel_w > g.stride_w;
  const Pixels pixels = overlap ? Pixels(g, g.in_h, g.in_w, N) : Pixels(g, g.out_h, g.out_w, N);
  launch(name,
         overlap ? pool2d_backward_thread_per_vector_kernel<N, T, Source>
                 : pool2d_backward_thread_per_window_kernel<N, T, Source>,
         {.grid = grid_for(pixels.n, kThreads), .block = kThreads}, stream, static_cast<T*>(dx),
         source, pixels, g);
}

/// A wide load of int64 places would be more than one.
template <class T, class Place>
void max_backward(const MaxPool2dBackwardArgs& args, StreamRef stream) {
  const auto with = [&]<int N>() {
    const MaxSource<T, Place, N> source{static_cast<const T*>(args.dy),
                                        static_cast<const Place*>(args.places)};
    run<N, T>("max_pool2d_backward", args.dx, source, args.geometry, stream);
  };
  if constexpr (sizeof(Place) > 1) {
    with.template operator()<1>();
  } else {
    dispatch_width<T>(args.geometry.channels, with, args.dx, args.dy, args.places);
  }
}

template <class T>
void avg_backward(const AvgPool2dBackwardArgs& args, StreamRef stream) {
  const auto with = [&]<int N>() {
    const AvgSource<T, N> source{static_cast<const T*>(args.dy), args.geometry,
                                 args.count_include_pad};
    run<N, T>("avg_pool2d_backward", args.dx, source, args.geometry, stream);
  };
  dispatch_width<T>(args.geometry.channels, with, args.dx, args.dy);
}

bool is_empty(const Pool2dGeometry& g) { return g.batch == 0 || g.channels == 0; }

}  // namespace

void max_pool2d_backward(const MaxPool2dBackwardArgs& args, StreamRef stream) {
  if (is_empty(args.geometry)) return;
  dispatch_device_float("max_pool2d_backward", args.geometry.dtype, [&]<class T>() {
    if (args.place_dtype == DType::kUInt8) {
      max_backward<T, uint8_t>(args, stream);
    } else {
      max_backward<T, int64_t>(args, stream);
    }
  });
}

void avg_pool2d_backward(const AvgPool2dBackwardArgs& args, StreamRef stream) {
  if (is_empty(args.geometry)) return;
  dispatch_device_float("avg_pool2d_backward", args.geometry.dtype,
                        [&]<class T>() { avg_backward<T>(args, stream); });
}

}  // namespace heddle::cuda
