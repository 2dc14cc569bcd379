#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/rng.h"
#include "heddle/core/tensor.h"

namespace heddle {

enum class Split { kTrain, kTest };
std::string_view name_of(Split split);  ///< "train", "test"

/// One item of a dataset: the value without a batch dimension, and its class.
struct Sample {
  Tensor value;
  int64_t label = 0;
};

/// What a Loader reads. Write your own by overriding `size` and `get`; both are called from several
/// threads at once, so they must not change the object.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;  ///< Units: samples.

  /// Sample `index`, 0 <= index < size(). Shapes: the same for every sample, any dtype. What it
  /// throws reaches the caller of the loader.
  virtual Sample get(int64_t index) const = 0;

  /// As `get`, for datasets that augment at random: draws from `rng` depend only on the loader's
  /// seed, the epoch and `index`, never on threads. Default: get(index).
  virtual Sample draw(int64_t index, Rng& rng) const;

  virtual std::vector<std::string> class_names() const { return {}; }

  /// Called before each batch is made. Errors: what the samples are read from has changed.
  virtual void check_source() const {}
};

inline constexpr int64_t kImageChannels = 3;
inline constexpr int64_t kImageSide = 32;
inline constexpr int64_t kImagePixels = kImageSide * kImageSide;
inline constexpr int64_t kImageBytes = kImageChannels * kImagePixels;

/// A picture where it lies: (3, 32, 32) bytes, one plane for each of red, green and blue.
struct ImageRecord {
  const uint8_t* planes = nullptr;
  int64_t label = 0;
};

/// A dataset of 32 x 32 colour pictures, which a Loader transforms (data/transforms.h) straight
/// into its batches without a tensor for each sample.
class ImageDataset : public Dataset {
 public:
  /// Errors: index outside of 0 .. size()-1.
  virtual ImageRecord record(int64_t index) const = 0;

  Sample get(int64_t index) const override;  ///< A copy: (3, 32, 32) uint8.
};

}  // namespace heddle
