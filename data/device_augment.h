#pragma once

#include "heddle/core/buffer.h"
#include "heddle/data/loader.h"

namespace heddle::detail {

/// A loader's transform on its CUDA device, and the table that it normalises by. In builds with
/// CUDA alone.
class DeviceAugment {
 public:
  /// The table is there when this returns. Of options: device and dtype.
  DeviceAugment(const LoaderOptions& options, const ImageTransform& transform, StreamRef stream);

  /// n pictures as floats, channels-last. Shapes: planes (n, 3, 32, 32), draws (n) of AugmentDraw.
  /// With `indices` (n), picture i is planes[indices[i]].
  Tensor run(const uint8_t* planes, const int64_t* indices, const Buffer& draws, int64_t n,
             StreamRef stream) const;

 private:
  Device device_;
  DType dtype_;
  int64_t cutout_;
  Buffer table_;
};

}  // namespace heddle::detail
