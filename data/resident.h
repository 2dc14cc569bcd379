#pragma once

#include <memory>
#include <vector>

#include "heddle/data/loader.h"

namespace heddle::detail {

/// Copies the first n_samples pictures and labels of `dataset` to each of options' devices, in
/// chunks through pinned memory, and returns what makes rings that gather batches from there: a
/// ring orders an epoch on its device, and draws and augments there, so nothing is copied in a
/// step. Errors: a device that is no CUDA device; pictures that take more than half of a device's
/// free memory.
MakeStagingRing make_resident(const ImageDataset& dataset, int64_t n_samples,
                              const std::vector<Device>& devices);

}  // namespace heddle::detail
