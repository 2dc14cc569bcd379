#include "heddle/tests/support/device.h"

#if defined(HEDDLE_TEST_SIM) && defined(CUDASIM_WITH_CHECKS)
#define HEDDLE_TEST_FINDINGS
#include <cudasim/findings.h>
#endif
#include "heddle/nn/ops.h"

namespace heddle::testing {

Device test_device() {
#if defined(HEDDLE_TEST_SIM) || defined(HEDDLE_TEST_GPU)
  return {DeviceType::kCuda, 0};
#else
  return Device::cpu();
#endif
}

bool on_cudasim() {
#ifdef HEDDLE_TEST_SIM
  return true;
#else
  return false;
#endif
}

Tensor on_test_device(const Tensor& x) { return to(x, test_device()); }

int64_t count_findings() {
#ifdef HEDDLE_TEST_FINDINGS
  return cudasim::finding_count();
#else
  return 0;
#endif
}

#ifdef HEDDLE_TEST_FINDINGS
ChecksOff::ChecksOff() : previous_(static_cast<int>(cudasim::checks())) {
  cudasim::set_checks(cudasim::Checks::kOff);
}
ChecksOff::~ChecksOff() { cudasim::set_checks(static_cast<cudasim::Checks>(previous_)); }
#else
ChecksOff::ChecksOff() = default;
ChecksOff::~ChecksOff() { (void)previous_; }
#endif

}  // namespace heddle::testing
