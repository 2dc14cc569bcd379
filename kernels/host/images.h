#pragma once

#include <cstdint>
#include <vector>

#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/host/scratch.h"

/// How convolution finds its operands in channels-last images.
namespace heddle::cpu {

/// One place of the filter: where it falls in the source image for destination pixel (0, 0), and
/// its index kh * kW + kw in the weights.
struct Tap {
  int64_t row, col, index;
};

/// Dense channels-last images to read from, and the taps over them; destination pixel (i, j) reads
/// (i * step_h + tap.row, j * step_w + tap.col), zeros outside.
template <class T>
struct TapSource {
  const T* data;
  int64_t h, w, channels;
  int64_t step_h, step_w;
  std::vector<Tap> taps;
};

/// Images of few channels, copied with their padding written out: then the taps of a filter row
/// are neighbours in memory, and a row of kW * channels values is one segment of the sums. A few
/// values behind the last may be read.
template <class T>
class PaddedImages {
 public:
  PaddedImages(const Conv2dGeometry& geometry, const T* x);
  /// Taps are the filter's rows.
  const TapSource<T>& source() const { return source_; }
  static constexpr int64_t kSlack = 16;

 private:
  Scratch data_;
  TapSource<T> source_;
};

/// Whether the convolution should go through PaddedImages.
bool wants_padded_images(const Conv2dGeometry& geometry);

/// The images as they are; taps are all places of the filter.
template <class T>
TapSource<T> plain_source(const Conv2dGeometry& geometry, const T* x);

}  // namespace heddle::cpu
