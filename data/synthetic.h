#pragma once

#include <memory>
#include <span>

#include "heddle/data/dataset.h"

namespace heddle {

inline constexpr int64_t kSyntheticClasses = 10;

struct SyntheticOptions {
  uint64_t seed = 0;
  int64_t size = 0;  ///< Units: samples; 0: as many as CIFAR-10 has, 50,000 and 10,000.
};

/// Generated pictures in CIFAR-10's shape, for machines without the data: ten kinds of shape (disc,
/// square, triangle, ...) at random places, sizes, turns and colours, striped, in front of striped
/// and cluttered backgrounds, with noise. Made in parallel when constructed; class = index mod 10.
/// Numerics: exact arithmetic only (+ - * / sqrt), so a seed gives the same bytes on every machine.
class Synthetic : public ImageDataset {
 public:
  /// Errors: size < 0.
  explicit Synthetic(Split split, const SyntheticOptions& options = {});

  int64_t size() const override { return size_; }
  ImageRecord record(int64_t index) const override;
  std::vector<std::string> class_names() const override;

 private:
  int64_t size_;
  std::shared_ptr<const std::vector<uint8_t>> planes_;  // (size, 3, 32, 32)
};

/// Draws picture `index` of (seed, split) alone. Returns its class.
int64_t draw_synthetic(uint64_t seed, Split split, int64_t index,
                       std::span<uint8_t, kImageBytes> planes);

}  // namespace heddle
