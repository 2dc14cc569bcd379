#pragma once

#include <string>
#include <vector>

#include "heddle/apps/bench_kernels/report.h"

/// Measuring on a CUDA device; in builds with CUDA alone.
namespace heddle::bench {

/// Whether the devices are cudasim's: it counts what kernels ask of memory, and tells no times.
bool devices_are_simulated();

/// "NVIDIA H100, 132 multiprocessors, compute capability 9.0".
std::string describe_device(Device device);

/// Times with events, each call for itself, with a second-level cache that holds none of its data.
Stopwatch cuda_stopwatch(Device device);

/// The bandwidth of heddle's copy kernel, and the rate of a 4096^3 product by the fastest side.
Peaks measure_cuda_peaks(Device device, int64_t rounds);

/// What heddle's native kernels of the case ask of memory, from one run under cudasim: prints a
/// table. Errors: devices are real.
nlohmann::ordered_json count_case(const Case& c, Device device);

}  // namespace heddle::bench
