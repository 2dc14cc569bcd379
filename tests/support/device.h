#pragma once

#include "heddle/core/tensor.h"

/// What a test program is for. The same tests are built for the CPU, for cudasim (*_sim_tests) and
/// for real devices (*_gpu_tests); the latter two run the cases that are tagged [device].
namespace heddle::testing {

/// cuda:0 in a program for cudasim or a real device, else the CPU.
Device test_device();
inline bool on_cuda() { return test_device().type == DeviceType::kCuda; }
bool on_cudasim();

/// x there.
Tensor on_test_device(const Tensor& x);

/// What cudasim's checks have found so far; 0 elsewhere.
int64_t count_findings();

/// While one lives, cudasim checks nothing, for runs at full size.
class ChecksOff {
 public:
  ChecksOff();
  ~ChecksOff();
  ChecksOff(const ChecksOff&) = delete;
  ChecksOff& operator=(const ChecksOff&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace heddle::testing
