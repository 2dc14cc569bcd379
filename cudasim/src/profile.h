#pragma once

#include "profile_block.h"

namespace cudasim {

/// Whether any Profile lives.
bool profile_wanted();

/// Counts of one launch, from all host threads, go to the profiles that live.
void add_to_profiles(const Launch& launch, LaunchCounts counts);

/// Of finished profiles: tables and JSON.
std::string profile_table(const std::vector<KernelProfile>& kernels);
std::string profile_json(const std::vector<KernelProfile>& kernels);

}  // namespace cudasim
