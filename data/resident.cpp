#include "heddle/data/resident.h"

#include "heddle/core/flavour.h"
#include "heddle/data/staging.h"

#ifndef HEDDLE_WITH_CUDA
namespace heddle::detail {

MakeStagingRing make_resident(const ImageDataset&, int64_t, const std::vector<Device>& devices) {
  fail("loader: resident pictures need a CUDA device, {} is none", devices.front().to_string());
}

}  // namespace heddle::detail
#endif
