#include "heddle/parallel/links_cuda.h"

#include <algorithm>

#include "heddle/core/buffer.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"

namespace heddle {
namespace {

bool is_cuda_pair(const std::vector<Device>& devices, size_t a, size_t b) {
  return devices[a].type == DeviceType::kCuda && devices[b].type == DeviceType::kCuda &&
         devices[a] != devices[b];
}

/// Calls body(a, b) for each ordered pair of different CUDA devices.
template <class Body>
void for_each_pair(const std::vector<Device>& devices, const Body& body) {
  for (size_t a = 0; a < devices.size(); ++a)
    for (size_t b = 0; b < devices.size(); ++b)
      if (is_cuda_pair(devices, a, b)) body(a, b);
}

#ifndef __CUDASIM__
constexpr int64_t kSmallCopy = 4 << 10;
constexpr int64_t kLargeCopy = 16 << 20;
constexpr int kRepeats = 5;

/// The least of several times of one copy. Units: seconds.
double copy_seconds(const Buffer& target, const Buffer& source, int64_t bytes,
                    const Stream& stream) {
  const DeviceGuard guard(target.device());
  double best = 1e9;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // the first warms up
    TimedEvent begin(stream.device()), end(stream.device());
    begin.record(stream);
    HEDDLE_CUDA_CHECK(cudaMemcpyPeerAsync(target.data(), target.device().index, source.data(),
                                          source.device().index, static_cast<size_t>(bytes),
                                          stream.ref().get()));
    end.record(stream);
    if (repeat > 0) best = std::min(best, (end - begin).count());
  }
  return best;
}

void measure_pair(Device from, Device to, Link& link) {
  const Stream giving(from), taking(to);
  const Buffer source(kLargeCopy, giving), target(kLargeCopy, taking);
  taking.wait(giving);  // the source is allocated
  const double small = copy_seconds(target, source, kSmallCopy, taking);
  const double large = copy_seconds(target, source, kLargeCopy, taking);
  link.bytes_per_second =
      static_cast<double>(kLargeCopy - kSmallCopy) / std::max(large - small, 1e-9);
  link.latency = std::max(0.0, small - static_cast<double>(kSmallCopy) / link.bytes_per_second);
  giving.wait(taking);  // what frees the source
}
#endif

}  // namespace

void cuda::find_peer_access(const std::vector<Device>& devices, Links& links) {
  for_each_pair(devices, [&](size_t from, size_t to) {
    int reachable = 0;
    HEDDLE_CUDA_CHECK(cudaDeviceCanAccessPeer(&reachable, devices[to].index, devices[from].index));
    links.at(static_cast<int>(from), static_cast<int>(to)).peer_access = reachable != 0;
  });
}

#ifdef __CUDASIM__
void cuda::measure_speeds(const std::vector<Device>&, Links&) {}
#else
void cuda::measure_speeds(const std::vector<Device>& devices, Links& links) {
  for_each_pair(devices, [&](size_t from, size_t to) {
    measure_pair(devices[from], devices[to],
                 links.at(static_cast<int>(from), static_cast<int>(to)));
  });
}
#endif

}  // namespace heddle
