#pragma once

// The three passes of a convolution as matrix products over channels-last images (implicit GEMM,
// gemm_image.cuh), for one element type:
//   y  (pixels, O)           = x unfolded (pixels, taps C)      w (O, taps C)^T
//   dx (pixels of a phase, C) = dy unfolded (pixels, taps O)    w turned (C, taps O)^T
//   dw (O, taps C)           = dy^T (O, pixels)                 x unfolded^T (taps C, pixels)^T
// Groups are the batch of the product. Channels that are no whole chunks of 16 bytes are copied
// with zeros after them (whole_channels.cuh).

#include <algorithm>
#include <numeric>

#include "heddle/kernels/device/column_sum.cuh"
#include "heddle/kernels/device/conv2d.h"
#include "heddle/kernels/device/conv2d_direct.cuh"
#include "heddle/kernels/device/gemm.cuh"
#include "heddle/kernels/device/gemm_image.cuh"
#include "heddle/kernels/device/turn.cuh"
#include "heddle/kernels/device/whole_channels.cuh"

namespace heddle {

/// How output positions of one axis walk over an image: i mul + off + j step, i < rows, j < taps.
struct ImageAxis {
  int64_t size, rows, mul, off, step, taps;
};

/// What addresses move on by: see ImageOperand.
template <class T>
void set_moves(ImageOperand<T>& image) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  image.channel_carry = kBytes * (image.step_w * image.pixel - image.channels);
  image.tap_carry =
      kBytes * (image.step_h * image.pitch - image.taps_w * image.step_w * image.pixel);
  image.q_carry = kBytes * (image.mul_h * image.pitch - image.rows_w * image.mul_w * image.pixel);
  image.p_carry = kBytes * (image.image - image.rows_h * image.mul_h * image.pitch);

  constexpr int kTile = kGemmDepth<T>;
  image.channel_digit = kTile % image.channels;
  image.tap_digit = kTile / image.channels;
  image.j_digit = image.tap_digit % image.taps_w;
  image.tap_moves = kBytes * (image.tap_digit / image.taps_w * image.step_h * image.pitch +
                              image.j_digit * image.step_w * image.pixel + image.channel_digit);
  const int rows = kTile / image.rows_w;
  image.w_digit = kTile % image.rows_w * image.mul_w;
  image.h_digit = rows % image.rows_h * image.mul_h;
  image.pixel_moves = kBytes * (rows / image.rows_h * image.image + image.h_digit * image.pitch +
                                image.w_digit * image.pixel);
}

template <class T>
ImageOperand<T> image_operand(const T* data, int64_t batch, int64_t groups, int64_t channels,
                              const ImageAxis& h, const ImageAxis& w) {
  const auto narrow = [](int64_t size) { return static_cast<int>(size); };  // check_conv2d_sizes
  ImageOperand<T> image{};
  image.data = data;
  image.n_pixels = batch * h.rows * w.rows;
  image.pixel = groups * channels;
  image.pitch = w.size * image.pixel;
  image.image = h.size * image.pitch;
  image.h = narrow(h.size);
  image.w = narrow(w.size);
  image.channels = narrow(channels);
  image.rows_h = narrow(h.rows);
  image.rows_w = narrow(w.rows);
  // What never moves may have any stride or dilation.
  image.mul_h = h.rows > 1 ? narrow(h.mul) : 1;
  image.mul_w = w.rows > 1 ? narrow(w.mul) : 1;
  image.off_h = narrow(h.off);
  image.off_w = narrow(w.off);
  image.step_h = h.taps > 1 ? narrow(h.step) : 0;
  image.step_w = w.taps > 1 ? narrow(w.step) : 0;
  const bool empty = h.taps * w.taps == 0;
  image.taps_h = empty ? 0 : narrow(h.taps);
  image.taps_w = empty ? 1 : narrow(w.taps);
  set_moves(image);
  return image;
}

/// The deepest part whose taps the bits of a word can name, wherever in a tap it begins.
inline int64_t image_depth_limit(int64_t taps, int64_t channels) {
  return taps <= kTapsOfPart ? INT64_MAX : (kTapsOfPart - 1) * channels;
}

template <class T>
bool allows_wide(const T* data, std::initializer_list<int64_t> strides) {
  return is_aligned<static_cast<int>(kChunk<T>)>(data) &&
         std::all_of(strides.begin(), strides.end(),
                     [](int64_t stride) { return stride % kChunk<T> == 0; });
}

template <class T>
GemmOutput<T> forward_output(const Conv2dForwardArgs& args) {
  const Conv2dGeometry& g = args.geometry;
  GemmOutput<T> out{};
  out.data = static_cast<T*>(args.y);
  out.m = g.batch * g.out_h * g.out_w;
  out.n = g.out_channels / g.groups;
  out.batch_stride = out.n;
  out.row_stride = g.out_channels;
  out.bias = static_cast<const T*>(args.bias);
  out.bias_stride = out.n;
  out.relu = args.relu;
  out.wide = allows_wide(out.data, {out.n, out.row_stride});
  return out;
}

template <class T>
ImageOperand<T> forward_image(const Conv2dGeometry& g, const T* x, int64_t channels) {
  return image_operand(x, g.batch, g.groups, channels,
                       {g.in_h, g.out_h, g.stride_h, -g.pad_h, g.dilation_h, g.kernel_h},
                       {g.in_w, g.out_w, g.stride_w, -g.pad_w, g.dilation_w, g.kernel_w});
}

using ImageAlongDepth = OperandKind<ImageLoader, Along::kDepth>;
using ImageAlongRows = OperandKind<ImageLoader, Along::kRows>;
using MatrixAlongDepth = OperandKind<MatrixLoader, Along::kDepth>;
using MatrixAlongRows = OperandKind<MatrixLoader, Along::kRows>;

template <class T>
void conv2d_forward_of_type(const Conv2dForwardArgs& args, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  const GemmOutput<T> out = forward_output<T>(args);
  if (out.m == 0 || out.n == 0) return;
  if (direct_applies(g))
    return conv2d_forward_direct(out, static_cast<const T*>(args.x), static_cast<const T*>(args.w),
                                 g, stream);
  const int64_t channels = g.in_channels / g.groups;
  const int64_t taps = g.kernel_h * g.kernel_w;
  const WholeChannels<T> x(args.x, g.batch * g.in_h * g.in_w * g.groups, channels, stream);
  const WholeChannels<T> w(args.w, g.out_channels * taps, channels, stream);
  const int64_t depth = channels == 0 ? 0 : taps * x.channels();
  const MatrixOperand<T> weights{w.data(), out.n, out.n * depth, depth};
  run_gemm<ImageAlongDepth, MatrixAlongDepth>({out.m, out.n, depth, g.groups},
                                              forward_image(g, x.data(), x.channels()), weights,
                                              out, image_depth_limit(taps, x.channels()), stream);
}

/// The rows of dx that belong to a phase.
template <class T>
GemmOutput<T> phase_output(const Conv2dBackwardDataArgs& args, const cuda::Conv2dPhase& h,
                           const cuda::Conv2dPhase& w) {
  const Conv2dGeometry& g = args.geometry;
  GemmOutput<T> out{};
  const int64_t pitch = g.in_w * g.in_channels;
  out.data = static_cast<T*>(args.dx) + h.first * pitch + w.first * g.in_channels;
  out.m = g.batch * h.count * w.count;
  out.n = g.in_channels / g.groups;
  out.batch_stride = out.n;
  out.row_stride = g.in_channels;
  out.wide = allows_wide(static_cast<T*>(args.dx), {out.n, g.in_channels});
  if (g.stride_h == 1 && g.stride_w == 1) return out;
  out.image = g.in_h * pitch;
  out.pitch = g.stride_h * pitch;
  out.pixel = g.stride_w * g.in_channels;
  out.rows_h = static_cast<int>(h.count);
  out.rows_w = static_cast<int>(w.count);
  return out;
}

template <class T>
void run_phase(const Conv2dBackwardDataArgs& args, const WholeChannels<T>& dy,
               const cuda::Conv2dPhase& h, const cuda::Conv2dPhase& w, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  const GemmOutput<T> out = phase_output<T>(args, h, w);
  if (out.m == 0 || out.n == 0) return;
  const int64_t of_group = g.out_channels / g.groups;
  const int64_t taps = h.taps * w.taps;
  const int64_t depth = of_group == 0 ? 0 : taps * dy.channels();
  const int64_t out_stride = g.kernel_h * g.kernel_w * out.n;
  const TurnSizes sizes{g.groups,
                        of_group,
                        dy.channels(),
                        out.n,
                        h.taps,
                        w.taps,
                        h.tap_step * g.kernel_w * out.n,
                        w.tap_step * out.n,
                        of_group * out_stride,
                        out_stride};
  const DeviceScratch turned(turned_size(sizes) * static_cast<int64_t>(sizeof(T)), stream);
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, T>;
  turn(turned.as<Bits>(), static_cast<const Bits*>(args.w) + (h.tap * g.kernel_w + w.tap) * out.n,
       sizes, stream);
  const MatrixOperand<T> weights{turned.as<T>(), out.n, out.n * depth, depth};
  const auto image = image_operand(dy.data(), g.batch, g.groups, dy.channels(),
                                   {g.out_h, h.count, 1, h.offset, h.step, h.taps},
                                   {g.out_w, w.count, 1, w.offset, w.step, w.taps});
  run_gemm<ImageAlongDepth, MatrixAlongDepth>({out.m, out.n, depth, g.groups}, image, weights, out,
                                              image_depth_limit(taps, dy.channels()), stream);
}

template <class T>
void conv2d_backward_data_of_type(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  if (g.batch == 0 || g.in_channels == 0) return;
  const WholeChannels<T> dy(args.dy, g.batch * g.out_h * g.out_w * g.groups,
                            g.out_channels / g.groups, stream);
  for (int64_t i = 0; i < std::min(g.stride_h, g.in_h); ++i) {
    const auto h = cuda::find_phase(i, g.in_h, g.kernel_h, g.stride_h, g.pad_h, g.dilation_h);
    for (int64_t j = 0; j < std::min(g.stride_w, g.in_w); ++j) {
      const auto w = cuda::find_phase(j, g.in_w, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w);
      run_phase<T>(args, dy, h, w, stream);
    }
  }
}

template <class T>
void conv2d_backward_weight_of_type(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  const int64_t channels = g.in_channels / g.groups;
  const int64_t of_group = g.out_channels / g.groups;
  const int64_t pixels = g.batch * g.out_h * g.out_w;
  const int64_t taps = g.kernel_h * g.kernel_w;
  if (args.db != nullptr)
    column_sum(static_cast<T*>(args.db), static_cast<const T*>(args.dy), pixels, g.out_channels,
               stream);
  if (channels == 0 || of_group == 0) return;
  const WholeChannels<T> x(args.x, g.batch * g.in_h * g.in_w * g.groups, channels, stream);
  const WholeChannels<T> dy(args.dy, pixels * g.groups, of_group, stream);
  GemmOutput<T> out{};
  out.data = static_cast<T*>(args.dw);
  out.m = of_group;
  out.n = taps * x.channels();
  out.row_stride = taps * channels;
  out.batch_stride = of_group * out.row_stride;
  out.wide = allows_wide(out.data, {out.n, out.row_stride});
  if (x.channels() != channels) {
    out.columns = static_cast<int>(x.channels());
    out.kept = static_cast<int>(channels);
  }
  const MatrixOperand<T> gradient{dy.data(), dy.channels(), dy.channels(),
                                  g.groups * dy.channels()};
  run_gemm<MatrixAlongRows, ImageAlongRows>({out.m, out.n, pixels, g.groups}, gradient,
                                            forward_image(g, x.data(), x.channels()), out,
                                            INT64_MAX, stream);
}

}  // namespace heddle
