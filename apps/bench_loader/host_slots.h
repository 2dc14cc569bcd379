#pragma once

#include "heddle/data/staging.h"

namespace heddle::bench_loader {

/// Slots of ordinary memory that nothing copies: what is left of staging without a device, the
/// host's part. Workers write what a device would get into slots that are used over and over, and
/// the batches handed out are those slots.
std::unique_ptr<detail::StagingRing> make_host_slots(const LoaderOptions& options,
                                                     const ImageTransform& transform, int n_slots);

}  // namespace heddle::bench_loader
