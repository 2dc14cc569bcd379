#include "heddle/apps/parallel_lab/machine.h"

#include "heddle/core/flavour.h"

#ifndef HEDDLE_WITH_CUDA
namespace heddle::lab {

void wait_for(Device) {}
void wait_for_stream(Device) {}
bool devices_are_virtual() { return false; }
void provide_devices(int) {}
void set_peer_access(const std::vector<Device>&, const Links&) {}
void run_late(bool) {}
std::vector<std::vector<int64_t>> counted_bytes(const std::vector<Device>&) { return {}; }
void clear_counted_bytes() {}

}  // namespace heddle::lab
#endif
