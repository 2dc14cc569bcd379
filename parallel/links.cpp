#include "heddle/parallel/links.h"

#include "heddle/core/flavour.h"
#include "heddle/parallel/links_cuda.h"

namespace heddle {

Links::Links(int n_devices, Link link) : n_devices_(n_devices) {
  HEDDLE_CHECK(n_devices >= 1, "links: {} devices, at least one is needed", n_devices);
  const auto n = static_cast<size_t>(n_devices);
  links_.assign(n * n, link);
}

const Link& Links::at(int from, int to) const {
  HEDDLE_CHECK(from >= 0 && from < n_devices_ && to >= 0 && to < n_devices_,
               "links: from {} to {} of {} devices", from, to, n_devices_);
  return links_[static_cast<size_t>(from) * static_cast<size_t>(n_devices_) +
                static_cast<size_t>(to)];
}

Link& Links::at(int from, int to) {
  return const_cast<Link&>(static_cast<const Links&>(*this).at(from, to));
}

Links Links::of(const std::vector<Device>& devices) {
  Links links(static_cast<int>(devices.size()));
#ifdef HEDDLE_WITH_CUDA
  cuda::find_peer_access(devices, links);
#endif
  return links;
}

Links Links::measure(const std::vector<Device>& devices) {
  Links links = of(devices);
#ifdef HEDDLE_WITH_CUDA
  cuda::measure_speeds(devices, links);
#endif
  return links;
}

}  // namespace heddle
