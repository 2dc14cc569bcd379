#pragma once

// Thrust, in the order of a stream: for what is one call of a host-launched algorithm and moves
// too little to be worth a kernel of ours. On a device its CUDA system runs with par_nosync. Under
// cudasim its CPP system runs inside a launch of a single thread: queued, ordered and checked as
// any kernel is. Whoever needs another algorithm includes its header here, behind the choice of
// the system.
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/scratch.h"

#ifdef __CUDASIM__
#define THRUST_HOST_SYSTEM THRUST_HOST_SYSTEM_CPP
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>

#include <new>
#include <vector>

#ifdef __CUDASIM__
#include <thrust/system/cpp/execution_policy.h>
#else
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>
#endif

namespace heddle {

inline constexpr int64_t kThrustAlignment = 256;  // of temporary memory

#ifdef __CUDASIM__

/// Temporary memory of one call: pieces of what the launch was given, the last one first given
/// back.
class ThrustMemory {
 public:
  using value_type = char;

  ThrustMemory(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  __device__ char* allocate(std::ptrdiff_t bytes) {
    const int64_t begin = used_;
    used_ += (bytes + kThrustAlignment - 1) / kThrustAlignment * kThrustAlignment;
    if (used_ > bytes_) throw std::bad_alloc();
    return data_ + begin;
  }
  __device__ void deallocate(char* piece, size_t) { used_ = piece - data_; }

 private:
  char* data_;
  int64_t bytes_;
  int64_t used_ = 0;
};

template <class Body>
__global__ void thrust_kernel(ThrustMemory memory, const Body body) {
  body(thrust::cpp::par(memory));
}

#else

/// Temporary memory of one call, given back in the order of its stream.
class ThrustMemory {
 public:
  using value_type = char;

  explicit ThrustMemory(StreamRef stream) : stream_(stream) {}
  char* allocate(std::ptrdiff_t bytes) {
    pieces_.emplace_back(bytes, stream_);
    return pieces_.back().as<char>();
  }
  void deallocate(char* piece, size_t) {
    std::erase_if(pieces_, [=](const DeviceScratch& held) { return held.data() == piece; });
  }

 private:
  StreamRef stream_;
  std::vector<DeviceScratch> pieces_;
};

#endif

/// Runs body(policy), which calls Thrust's algorithms with that policy on memory of the stream's
/// device, in the order of the stream. The body's own statements run on the host, or under cudasim
/// in the kernel: what it captures it captures by value, and results go to the device. An algorithm
/// that returns a number makes the host wait, and cannot be captured into a graph. `scratch_bytes`
/// is the most that the algorithms ask of temporary memory under cudasim at one time.
/// Errors: as of a launch, named `name`.
template <class Body>
void run_thrust(const char* name, StreamRef stream, int64_t scratch_bytes, const Body& body) {
#ifdef __CUDASIM__
  const DeviceScratch scratch(scratch_bytes, stream);
  launch(name, thrust_kernel<Body>, {.grid = 1, .block = 1}, stream,
         ThrustMemory(scratch.as<char>(), scratch_bytes), body);
#else
  (void)scratch_bytes;
  ThrustMemory memory(stream);
  cudaError_t status = cudaSuccess;
  try {
    body(thrust::cuda::par_nosync(memory).on(stream.get()));
  } catch (const thrust::system_error& error) {
    status = static_cast<cudaError_t>(error.code().value());
  }
  HEDDLE_CUDA_CHECK_LAUNCH(status, name, stream.get());
#endif
}

}  // namespace heddle
