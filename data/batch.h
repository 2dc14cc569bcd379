#pragma once

#include <span>

#include "heddle/data/loader.h"

namespace heddle::detail {

/// What sample `index` is augmented with in an epoch.
Rng augmentation(uint64_t seed, int64_t epoch, int64_t index);

/// The memory of a batch of pictures: (n, 3, 32, 32) channels-last and (n) labels.
Batch empty_image_batch(int64_t n, DType dtype);

/// Fills it: each picture transformed straight into its place.
void fill_image_batch(const ImageDataset& dataset, const ImageTransform& transform, uint64_t seed,
                      Batch& batch);

/// Fills a batch of records, (n, 3, 32, 32) bytes plane by plane, with the draws of each: what
/// fill_image_batch would transform.
void fill_byte_batch(const ImageDataset& dataset, const ImageTransform& transform, uint64_t seed,
                     AugmentDraw* draws, Batch& batch);

/// A copy of a dense tensor of the host (row-major or channels-last), queued in the device's
/// current stream. Ordinary memory has been read when this returns, pinned memory not yet.
Tensor sent(const Tensor& host, Device device);

/// Moves it in the order of the device's current stream.
void move_batch(Batch& batch, Device device);

/// Draws the samples and stacks them; the first decides shape and dtype.
/// Errors: a sample of another shape or dtype, named with its index.
void fill_sample_batch(const Dataset& dataset, uint64_t seed, Batch& batch);

}  // namespace heddle::detail
