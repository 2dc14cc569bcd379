#pragma once

#include "heddle/parallel/links.h"

/// The CUDA side of parallel/links.h.
namespace heddle::cuda {

void find_peer_access(const std::vector<Device>& devices, Links& links);
void measure_speeds(const std::vector<Device>& devices, Links& links);

}  // namespace heddle::cuda
