#pragma once

// The forward pass of a convolution with few input channels (the first of a network: 3), for which
// tiles of a matrix product would be mostly padding. A block computes kDirectPixels pixels x
// kDirectOut output channels, a thread 4 x 8 of them; the weights of those channels lie in shared
// memory as float32, (taps, channels, kDirectOut); image values come through the first-level cache,
// which the windows of neighbouring pixels share. Sums in float32, in the order (kH, kW, C).

#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/device/gemm_output.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/multiply_add.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {

inline constexpr int kDirectOut = 32;
inline constexpr int kDirectRun = 8;  // output channels of a thread
inline constexpr int kDirectThreads = 128;
inline constexpr int kDirectPixelsOfThread = 4;
inline constexpr int kDirectPixels =
    kDirectThreads / (kDirectOut / kDirectRun) * kDirectPixelsOfThread;
inline constexpr int64_t kDirectDepth = 192;  // 24 KiB of weights

/// Images (N, h, w, channels), weights (out, kernel_h, kernel_w, channels).
struct DirectSizes {
  int h, w, channels, rows_h, rows_w;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

template <class T>
__device__ __forceinline__ void stage_weights(float* staged, const T* w, const DirectSizes& sizes,
                                              int64_t n_out, int64_t first_out) {
  const int depth = sizes.kernel_h * sizes.kernel_w * sizes.channels;
  for (int i = static_cast<int>(threadIdx.x); i < depth * kDirectOut; i += kDirectThreads) {
    const int64_t out = first_out + i / depth;  // neighbours read neighbours
    const float value = out < n_out ? to_float(w[out * depth + i % depth]) : 0.0F;
    staged[i % depth * kDirectOut + i / depth] = value;
  }
  __syncthreads();
}

inline constexpr int kOutside = -(1 << 30);  // no tap brings it into an image

/// Where the window of an output pixel begins.
struct DirectWindow {
  int64_t row;  // of its image's first, counted through all images
  int h, w;

  /// The image's pixel there, or null in the padding.
  template <class T>
  __device__ __forceinline__ const T* find(const T* x, const DirectSizes& sizes, int tap_h,
                                           int tap_w) const {
    const int i = h + tap_h;
    const int j = w + tap_w;
    const bool inside = static_cast<unsigned>(i) < static_cast<unsigned>(sizes.h) &&
                        static_cast<unsigned>(j) < static_cast<unsigned>(sizes.w);
    return inside ? x + ((row + i) * sizes.w + j) * sizes.channels : nullptr;
  }
};

__device__ __forceinline__ DirectWindow find_window(const DirectSizes& sizes, int64_t pixel,
                                                    int64_t n_pixels) {
  if (pixel >= n_pixels) return {0, kOutside, kOutside};
  const int64_t pixels = int64_t{sizes.rows_h} * sizes.rows_w;
  const int64_t rest = pixel % pixels;
  return {pixel / pixels * sizes.h,
          static_cast<int>(rest / sizes.rows_w) * sizes.stride_h - sizes.pad_h,
          static_cast<int>(rest % sizes.rows_w) * sizes.stride_w - sizes.pad_w};
}

/// Image values of this thread's pixels, one channel, times the weights of its output channels.
template <class T>
__device__ __forceinline__ void add_products(float (&sums)[kDirectPixelsOfThread][kDirectRun],
                                             const T* const (&source)[kDirectPixelsOfThread],
                                             int channel, const float* weights) {
  const Vector<float, 4> left = load_shared<4>(weights);
  const Vector<float, 4> right = load_shared<4>(weights + 4);
  HEDDLE_UNROLL
  for (int p = 0; p < kDirectPixelsOfThread; ++p) {
    const float value = source[p] != nullptr ? to_float(source[p][channel]) : 0.0F;
    HEDDLE_UNROLL
    for (int i = 0; i < kDirectRun; ++i)
      sums[p][i] = multiply_add(value, i < 4 ? left[i % 4] : right[i % 4], sums[p][i]);
  }
}

template <class T>
__device__ __forceinline__ void store_direct(const GemmOutput<T>& y,
                                             const float (&sums)[kDirectPixelsOfThread][kDirectRun],
                                             int64_t pixel, int64_t out) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  float bias[kDirectRun];
  HEDDLE_UNROLL
  for (int i = 0; i < kDirectRun; ++i)
    bias[i] = y.bias != nullptr && out + i < y.n ? to_float(y.bias[out + i]) : 0.0F;
  HEDDLE_UNROLL
  for (int p = 0; p < kDirectPixelsOfThread; ++p) {
    if (pixel + p >= y.m) continue;
    T* row = y.data + (pixel + p) * y.n + out;
    HEDDLE_UNROLL
    for (int first = 0; first < kDirectRun; first += kVector) {
      Vector<T, kVector> run;
      HEDDLE_UNROLL
      for (int i = 0; i < kVector; ++i)
        run[i] = from_float<T>(at_least(sums[p][first + i] + bias[first + i], y.least()));
      store_run(row + first, y.n - out - first, y.wide, run);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kDirectThreads)
    conv2d_forward_direct_kernel(const __grid_constant__ GemmOutput<T> y, const T* x, const T* w,
                                 const __grid_constant__ DirectSizes sizes) {
  constexpr int kRuns = kDirectOut / kDirectRun;
  auto* staged = dynamic_shared<float>();
  const int64_t slabs = (y.n + kDirectOut - 1) / kDirectOut;
  const int64_t first_out = int64_t{blockIdx.x} % slabs * kDirectOut;
  stage_weights(staged, w, sizes, y.n, first_out);
  const int run = static_cast<int>(threadIdx.x) % kRuns * kDirectRun;
  const int64_t pixel = int64_t{blockIdx.x} / slabs * kDirectPixels +
                        static_cast<int>(threadIdx.x) / kRuns * kDirectPixelsOfThread;
  DirectWindow window[kDirectPixelsOfThread];
  HEDDLE_UNROLL
  for (int p = 0; p < kDirectPixelsOfThread; ++p) window[p] = find_window(sizes, pixel + p, y.m);
  float sums[kDirectPixelsOfThread][kDirectRun] = {};
  const float* weights = staged + run;
  for (int i = 0; i < sizes.kernel_h; ++i) {
    for (int j = 0; j < sizes.kernel_w; ++j) {
      const T* source[kDirectPixelsOfThread];
      HEDDLE_UNROLL
      for (int p = 0; p < kDirectPixelsOfThread; ++p)
        source[p] = window[p].find(x, sizes, i * sizes.dilation_h, j * sizes.dilation_w);
      for (int channel = 0; channel < sizes.channels; ++channel) {
        add_products(sums, source, channel, weights);
        weights += kDirectOut;
      }
    }
  }
  store_direct(y, sums, pixel, first_out + run);
}

inline bool direct_applies(const Conv2dGeometry& g) {
  return g.groups == 1 && g.in_channels >= 1 && g.in_channels <= 3 &&
         g.kernel_h * g.kernel_w * g.in_channels <= kDirectDepth;
}

template <class T>
void conv2d_forward_direct(const GemmOutput<T>& y, const T* x, const T* w, const Conv2dGeometry& g,
                           StreamRef stream) {
  const auto narrow = [](int64_t size) { return static_cast<int>(size); };  // check_conv2d_sizes
  const DirectSizes sizes{narrow(g.in_h),      narrow(g.in_w),     narrow(g.in_channels),
                          narrow(g.out_h),     narrow(g.out_w),    narrow(g.kernel_h),
                          narrow(g.kernel_w),  narrow(g.stride_h), narrow(g.stride_w),
                          narrow(g.pad_h),     narrow(g.pad_w),    narrow(g.dilation_h),
                          narrow(g.dilation_w)};
  const int64_t depth = g.kernel_h * g.kernel_w * g.in_channels;
  launch("conv2d_forward_direct_kernel", conv2d_forward_direct_kernel<T>,
         {.grid = {grid_for(int64_t{grid_for(y.m, kDirectPixels)} * grid_for(y.n, kDirectOut), 1)},
          .block = {kDirectThreads},
          .shared_bytes = static_cast<size_t>(depth) * kDirectOut * sizeof(float)},
         stream, y, x, w, sizes);
}

}  // namespace heddle
