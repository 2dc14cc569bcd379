#pragma once

#include <string>

#include "heddle/core/device.h"

/// What core asks CUDA about devices; in builds with CUDA alone.
namespace heddle::cuda {

/// The devices that CUDA_VISIBLE_DEVICES leaves; 0 where there is no driver, or one that is too
/// old.
int device_count();
/// Why there is no such device: "no NVIDIA driver is installed", "the NVIDIA driver is for CUDA
/// 12.4, this heddle needs one for 13.0 or later", "this machine has 1 CUDA device, the last is
/// cuda:0". Empty where there is.
std::string why_missing(Device device);
/// As Device::description.
std::string description(Device device);

}  // namespace heddle::cuda
