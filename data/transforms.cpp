#include "heddle/data/transforms.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

constexpr int64_t kTableSize = 256;

void check(const TransformOptions& options) {
  for (size_t c = 0; c < 3; ++c) {
    HEDDLE_CHECK(std::isfinite(options.mean[c]), "transforms: mean of channel {} is {}", c,
                 options.mean[c]);
    HEDDLE_CHECK(std::isfinite(options.std[c]) && options.std[c] > 0,
                 "transforms: std of channel {} is {}, expected a positive number", c,
                 options.std[c]);
  }
  HEDDLE_CHECK(options.crop_padding >= 0 && options.crop_padding <= kImageSide,
               "transforms: crop padding is {}, expected 0 to {}", options.crop_padding,
               kImageSide);
  HEDDLE_CHECK(options.cutout >= 0 && options.cutout <= 2 * kImageSide,
               "transforms: cutout is {}, expected 0 to {}", options.cutout, 2 * kImageSide);
}

/// The part of the picture that output columns [begin, end) of a row show: column x comes from
/// first + (x - begin) * step. The other columns are padding.
struct Columns {
  int64_t begin = 0;
  int64_t end = kImageSide;
  int64_t first = 0;
};

Columns columns_of(int64_t shift, bool flip) {
  // Before the flip, output column x shows input column x + shift.
  const int64_t begin = std::max<int64_t>(0, -shift);
  const int64_t end = std::min(kImageSide, kImageSide - shift);
  if (begin >= end) return {0, 0, 0};
  if (!flip) return {begin, end, begin + shift};
  return {kImageSide - end, kImageSide - begin, end - 1 + shift};
}

template <class T>
void fill(T* out, int64_t begin, int64_t end, const std::array<T, 3>& colour) {
  for (int64_t x = begin; x < end; ++x)
    for (int64_t c = 0; c < kImageChannels; ++c) out[x * kImageChannels + c] = colour[c];
}

template <int kStep, class T>
void copy_columns(const uint8_t* row, const T* table, const Columns& columns, T* out) {
  const uint8_t* r = row + columns.first;
  const int64_t n = columns.end - columns.begin;
  T* to = out + columns.begin * kImageChannels;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* pixel = r + i * kStep;
    to[0] = table[pixel[0]];
    to[1] = table[kTableSize + pixel[kImagePixels]];
    to[2] = table[2 * kTableSize + pixel[2 * kImagePixels]];
    to += kImageChannels;
  }
}

template <class T>
void cut_out(T* out, int64_t side, int64_t row, int64_t column) {
  const int64_t top = std::max<int64_t>(0, row - side / 2);
  const int64_t bottom = std::min(kImageSide, row - side / 2 + side);
  const int64_t left = std::max<int64_t>(0, column - side / 2);
  const int64_t right = std::min(kImageSide, column - side / 2 + side);
  for (int64_t y = top; y < bottom; ++y)
    fill(out + y * kImageSide * kImageChannels, left, right, {T(0.0F), T(0.0F), T(0.0F)});
}

}  // namespace

ImageTransform::ImageTransform(const TransformOptions& options) : options_(options) {
  check(options);
  for (size_t c = 0; c < 3; ++c) {
    for (int64_t value = 0; value < kTableSize; ++value) {
      const float scaled = static_cast<float>(value) / 255.0F;
      const float centred = scaled - options.mean[c];
      table_f32_.push_back(centred / options.std[c]);
      table_bf16_.emplace_back(table_f32_.back());
    }
  }
}

template <>
const float* ImageTransform::table() const {
  return table_f32_.data();
}
template <>
const BFloat16* ImageTransform::table() const {
  return table_bf16_.data();
}

AugmentRanges ImageTransform::ranges() const {
  return {.padding = static_cast<int32_t>(options_.crop_padding),
          .flip = options_.flip,
          .side = options_.cutout > 0 ? static_cast<int32_t>(kImageSide) : 0};
}

AugmentDraw ImageTransform::draw(Rng& rng) const { return draw_augment(ranges(), rng); }

template <class T>
void ImageTransform::apply(const uint8_t* planes, Rng& rng, T* out) const {
  const AugmentDraw draw = this->draw(rng);
  const T* values = table<T>();
  const Columns columns = columns_of(draw.right, draw.flip != 0);
  const std::array<T, 3> black = {values[0], values[kTableSize], values[2 * kTableSize]};
  for (int64_t y = 0; y < kImageSide; ++y) {
    T* out_row = out + y * kImageSide * kImageChannels;
    const int64_t from = y + draw.down;
    if (from < 0 || from >= kImageSide) {
      fill(out_row, 0, kImageSide, black);
      continue;
    }
    const uint8_t* row = planes + from * kImageSide;
    fill(out_row, 0, columns.begin, black);
    if (draw.flip != 0) {
      copy_columns<-1>(row, values, columns, out_row);
    } else {
      copy_columns<1>(row, values, columns, out_row);
    }
    fill(out_row, columns.end, kImageSide, black);
  }
  if (options_.cutout > 0) cut_out(out, options_.cutout, draw.cut_row, draw.cut_column);
}

template void ImageTransform::apply(const uint8_t*, Rng&, float*) const;
template void ImageTransform::apply(const uint8_t*, Rng&, BFloat16*) const;

}  // namespace heddle
