#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/error.h"

namespace heddle {

enum class DeviceType { kCpu, kCuda };

/// Where a tensor's memory is. A build without CUDA parses `cuda:N` all the same, so that asking
/// for it is a clear error and never a silent run elsewhere.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device best();              ///< cuda:0 where this build and machine have one, else cpu.
  static std::vector<Device> all();  ///< cpu, then the CUDA devices that are visible.

  /// Parses "cpu" or "cuda:N". Errors: UsageError for another text, or a device that this build or
  /// machine lacks.
  static Device parse(std::string_view text);

  std::string to_string() const;
  /// "NVIDIA H200, compute capability 9.0, 143156 MiB"; "cpu". Errors: not of this machine.
  std::string description() const;
  bool operator==(const Device&) const = default;
};

bool built_with_cuda();

/// Parses the value of `--devices`: a comma-separated list, or "all" (all CUDA devices; the CPU
/// where there are none). Errors: as Device::parse.
std::vector<Device> parse_devices(std::string_view text);

}  // namespace heddle
