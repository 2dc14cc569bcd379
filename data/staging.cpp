#include "heddle/data/staging.h"

#include "heddle/core/flavour.h"

#ifndef HEDDLE_WITH_CUDA
namespace heddle::detail {

std::unique_ptr<StagingRing> make_staging_ring(const LoaderOptions& options, const ImageTransform&,
                                               int) {
  fail("loader: {} is not a device of this build", options.device.to_string());
}

}  // namespace heddle::detail
#endif
