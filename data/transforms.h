#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "heddle/core/rng.h"
#include "heddle/data/dataset.h"
#include "heddle/kernels/augment_draws.h"

namespace heddle {

/// Mean and standard deviation of CIFAR-10's training pictures, each channel scaled to [0, 1].
inline constexpr std::array<float, 3> kCifar10Mean = {0.4914F, 0.4822F, 0.4465F};
inline constexpr std::array<float, 3> kCifar10Std = {0.2470F, 0.2435F, 0.2616F};

/// What is done to a picture, in this order: crop, flip, scale to [0, 1] and normalise, cutout.
struct TransformOptions {
  /// (byte / 255 - mean) / std. A mean of 0 and std of 1 only scales to [0, 1].
  std::array<float, 3> mean = kCifar10Mean;
  std::array<float, 3> std = kCifar10Std;
  /// Black pixels added on every side before a random 32 x 32 part is cut out. 0: no crop.
  int64_t crop_padding = 0;
  /// Mirrored left to right with probability one half.
  bool flip = false;
  /// Side of a square, centred on a random pixel, that is set to 0 (the mean) after normalisation.
  /// What reaches over the edge is lost. 0: none. Source: DeVries and Taylor 2017.
  int64_t cutout = 0;

  /// Normalise only: for evaluation.
  TransformOptions without_augmentation() const { return {.mean = mean, .std = std}; }
};

/// The transforms of one picture in a single pass: table look-up, crop, flip and interleaving of
/// the colour planes, straight into its place in a channels-last batch.
/// Numerics: the table holds (byte / 255 - mean) / std in float32, rounded after each operation, so
/// float32 results equal those of torchvision's ToTensor and Normalize bit for bit.
class ImageTransform {
 public:
  /// Errors: std not positive and finite, mean not finite, crop padding outside of 0 .. 32, cutout
  /// outside of 0 .. 64.
  explicit ImageTransform(const TransformOptions& options = {});

  const TransformOptions& options() const { return options_; }

  /// What is drawn for each picture.
  AugmentRanges ranges() const;

  /// The draws of one picture: crop row, crop column, flip, cutout row, cutout column, those that
  /// are in use.
  AugmentDraw draw(Rng& rng) const;

  /// Shapes: planes (3, 32, 32) bytes; out (32, 32, 3). T: float or BFloat16.
  template <class T>
  void apply(const uint8_t* planes, Rng& rng, T* out) const;

  /// (3, 256): what each byte of each channel becomes. T: float or BFloat16.
  template <class T>
  const T* table() const;

 private:
  TransformOptions options_;
  std::vector<float> table_f32_;
  std::vector<BFloat16> table_bf16_;
};

template <>
const float* ImageTransform::table() const;
template <>
const BFloat16* ImageTransform::table() const;

}  // namespace heddle
