#pragma once

// A convolution's image as an operand of a matrix product (implicit GEMM): nothing is unfolded in
// memory. Element (pixel, tap, channel) of the unfolded matrix is the image's element
//   (n, p mul_h + off_h + i step_h, q mul_w + off_w + j step_w, channel)
// for pixel (n, p, q) and tap (i, j), or zero where that lies outside. The forward pass and the
// weight gradient have mul = stride, off = -padding, step = dilation; the data gradient, for one
// phase of the stride, mul = 1 and a negative step (kernels/conv2d.cu).
// Positions move on by mixed-radix addition: a tile's depth as digits, with carries, no division.

#include "heddle/kernels/device/gemm_operand.cuh"

namespace heddle {

/// Where a pixel lies. In the padding, or of an empty batch, that is no address and never read: a
/// number where sanitizers look, a pointer for nvcc, which needs fewer registers so.
#ifdef __CUDASIM__
using PixelAddress = uintptr_t;
#else
using PixelAddress = const char*;
#endif

template <class T>
__device__ __forceinline__ PixelAddress pixel_address(const T* first, int64_t elements) {
  return reinterpret_cast<PixelAddress>(first) + elements * int64_t{sizeof(T)};
}

/// Taps that one part of the depth of an image operand may touch.
inline constexpr int kTapsOfPart = 32;

/// Channels-last images (N, H, W, pixel), of which a group's `channels` are read. All coordinates,
/// of the padding too, are within (-2^29, 2^29), taps and rows_h, rows_w are 1 or more.
template <class T>
struct ImageOperand {
  const T* data;
  int64_t n_pixels;             // N rows_h rows_w
  int64_t image, pitch, pixel;  // strides, elements
  int h, w, channels;           // channels: whole chunks
  int rows_h, rows_w;           // p < rows_h, q < rows_w
  int mul_h, mul_w, off_h, off_w;
  int step_h, step_w, taps_h, taps_w;
  // What an address moves on by, in bytes, besides the digits' own: from the last channel to the
  // next tap, the last tap of a row to the next row, the last pixel of a row, the last row of an
  // image.
  int64_t channel_carry;  // step_w pixel - channels
  int64_t tap_carry;      // step_h pitch - taps_w step_w pixel
  int64_t q_carry;        // mul_h pitch - rows_w mul_w pixel
  int64_t p_carry;        // image - rows_h mul_h pitch
  // What one tile's depth is in digits, of (tap, channel) and of pixels (image, p, q), and in
  // bytes.
  int channel_digit, tap_digit, j_digit;
  int h_digit, w_digit;  // times mul
  int64_t tap_moves, pixel_moves;
};

template <class T, class Map>
class ImageLoader;

/// Pixels are rows; taps and channels are depth. There are no taps past the end; a part that ends
/// before it has a whole number of tiles, so that no chunk need be compared with the end.
template <class T, int kRows, int kDepth, int kThreads>
class ImageLoader<T, TileMap<T, Along::kDepth, kRows, kDepth, kThreads>> {
 public:
  using Map = TileMap<T, Along::kDepth, kRows, kDepth, kThreads>;
  using Operand = ImageOperand<T>;

  __device__ __forceinline__ ImageLoader(const Operand& image, const TileOrigin& origin)
      : image_(image) {
    const int64_t k = origin.k + Map::chunk() * Map::kVector;
    channel_ = static_cast<int>(k % image.channels);
    const auto tap = static_cast<int>(k / image.channels);
    const int i = tap / image.taps_w;
    j_ = tap % image.taps_w;
    const T* first = image.data + origin.batch * image.channels + channel_ +
                     i * image.step_h * image.pitch + j_ * image.step_w * image.pixel;
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass)
      place_row(pass, origin.row + Map::line(pass), i, first);
  }
  __device__ __forceinline__ bool valid(int pass) const { return (taps_[pass] & tap_) != 0; }
  __device__ __forceinline__ const T* address(int pass) const {
    return reinterpret_cast<const T*>(address_[pass]);
  }

  __device__ __forceinline__ void advance() {
    channel_ += image_.channel_digit;
    tap_ <<= image_.tap_digit;
    j_ += image_.j_digit;
    int64_t moves = image_.tap_moves;
    if (channel_ >= image_.channels) {
      channel_ -= image_.channels;
      tap_ <<= 1;
      j_ += 1;
      moves += image_.channel_carry;
    }
    if (j_ >= image_.taps_w) {
      j_ -= image_.taps_w;
      moves += image_.tap_carry;
    }
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) address_[pass] += moves;
  }

 private:
  /// The pass's pixel: its address at this thread's first k, and which taps fall into the image.
  __device__ __forceinline__ void place_row(int pass, int64_t row, int i, const T* first) {
    const int64_t pixels = int64_t{image_.rows_h} * image_.rows_w;
    const int64_t rest = row % pixels;
    const int h = static_cast<int>(rest / image_.rows_w) * image_.mul_h + image_.off_h;
    const int w = static_cast<int>(rest % image_.rows_w) * image_.mul_w + image_.off_w;
    address_[pass] =
        pixel_address(first, row / pixels * image_.image + h * image_.pitch + w * image_.pixel);
    taps_[pass] = 0;
    if (row >= image_.n_pixels) return;
    int j = j_;
    for (int bit = 0; bit < kTapsOfPart && i < image_.taps_h; ++bit) {
      const auto tap_h = static_cast<unsigned>(h + i * image_.step_h);
      const auto tap_w = static_cast<unsigned>(w + j * image_.step_w);
      if (tap_h < static_cast<unsigned>(image_.h) && tap_w < static_cast<unsigned>(image_.w))
        taps_[pass] |= 1U << bit;
      if (++j == image_.taps_w) {
        j = 0;
        ++i;
      }
    }
  }

  const Operand& image_;
  PixelAddress address_[Map::kPasses];  // perhaps in the padding
  uint32_t taps_[Map::kPasses];         // bit t: the t-th tap from the part's first is in the image
  uint32_t tap_ = 1;                    // the bit of the present tap
  int channel_, j_;
};

/// Taps and channels are rows; pixels are depth.
template <class T, int kRows, int kDepth, int kThreads>
class ImageLoader<T, TileMap<T, Along::kRows, kRows, kDepth, kThreads>> {
 public:
  using Map = TileMap<T, Along::kRows, kRows, kDepth, kThreads>;
  using Operand = ImageOperand<T>;

  __device__ __forceinline__ ImageLoader(const Operand& image, const TileOrigin& origin)
      : image_(image), left_(origin.depth - Map::line(0)) {
    const int64_t row = origin.row + Map::chunk() * Map::kVector;
    const int64_t tap = row / image.channels;
    const int64_t i = tap / image.taps_w;
    const int tap_h = image.off_h + static_cast<int>(i) * image.step_h;
    const int tap_w = image.off_w + static_cast<int>(tap % image.taps_w) * image.step_w;
    if (i >= image.taps_h) left_ = 0;
    end_h_ = tap_h + image.rows_h * image.mul_h;
    end_w_ = tap_w + image.rows_w * image.mul_w;
    const T* first = image.data + origin.batch * image.channels + row % image.channels;
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass)
      place_pixel(pass, origin.k + Map::line(pass), tap_h, tap_w, first);
  }
  __device__ __forceinline__ bool valid(int pass) const {
    return pass * Map::kLinesPerPass < left_ &&
           static_cast<unsigned>(h_[pass]) < static_cast<unsigned>(image_.h) &&
           static_cast<unsigned>(w_[pass]) < static_cast<unsigned>(image_.w);
  }
  __device__ __forceinline__ const T* address(int pass) const {
    return reinterpret_cast<const T*>(address_[pass]);
  }
  __device__ __forceinline__ void advance() {
    left_ -= kDepth;
    HEDDLE_UNROLL
    for (int pass = 0; pass < Map::kPasses; ++pass) {
      w_[pass] += image_.w_digit;
      h_[pass] += image_.h_digit;
      address_[pass] += image_.pixel_moves;
      if (w_[pass] >= end_w_) {
        w_[pass] -= image_.rows_w * image_.mul_w;
        h_[pass] += image_.mul_h;
        address_[pass] += image_.q_carry;
      }
      if (h_[pass] >= end_h_) {
        h_[pass] -= image_.rows_h * image_.mul_h;
        address_[pass] += image_.p_carry;
      }
    }
  }

 private:
  __device__ __forceinline__ void place_pixel(int pass, int64_t pixel, int tap_h, int tap_w,
                                              const T* first) {
    const int64_t pixels = int64_t{image_.rows_h} * image_.rows_w;
    const int64_t rest = pixel % pixels;
    h_[pass] = static_cast<int>(rest / image_.rows_w) * image_.mul_h + tap_h;
    w_[pass] = static_cast<int>(rest % image_.rows_w) * image_.mul_w + tap_w;
    address_[pass] = pixel_address(
        first, pixel / pixels * image_.image + h_[pass] * image_.pitch + w_[pass] * image_.pixel);
  }

  const Operand& image_;
  PixelAddress address_[Map::kPasses];  // perhaps in the padding
  int h_[Map::kPasses], w_[Map::kPasses];
  int left_;  // pixels from this thread's first to the end
  int end_h_, end_w_;
};

}  // namespace heddle
