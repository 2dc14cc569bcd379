#pragma once

#include <span>

#include "heddle/data/loader.h"

namespace heddle::detail {

/// The memory of a batch of pictures: (n, 3, 32, 32) channels-last and (n) labels.
Batch empty_image_batch(int64_t n, DType dtype);

/// Fills it: each picture transformed straight into its place.
void fill_image_batch(const ImageDataset& dataset, const ImageTransform& transform, uint64_t seed,
                      Batch& batch);

/// Draws the samples and stacks them; the first decides shape and dtype.
/// Errors: a sample of another shape or dtype, named with its index.
void fill_sample_batch(const Dataset& dataset, uint64_t seed, Batch& batch);

}  // namespace heddle::detail
