#pragma once

namespace heddle::detail {

/// From now on spans are NVTX ranges as well. Does nothing in a build without NVTX. In builds with
/// CUDA alone; called when a device is first used.
void tell_profilers();

}  // namespace heddle::detail
