#include "heddle/core/cuda_check.h"
#include "heddle/kernels/provider.h"

namespace heddle::detail {

bool cuda_times_candidates() {
#ifdef __CUDASIM__
  return false;  // it counts, it does not time
#else
  return true;
#endif
}

bool cuda_may_wait(StreamRef stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  HEDDLE_CUDA_CHECK(cudaStreamIsCapturing(stream.get(), &status));
  return status == cudaStreamCaptureStatusNone;
}

void cuda_wait(StreamRef stream) { HEDDLE_CUDA_CHECK(cudaStreamSynchronize(stream.get())); }

std::string cuda_card_name(StreamRef stream) {
  cudaDeviceProp properties{};
  HEDDLE_CUDA_CHECK(cudaGetDeviceProperties(&properties, stream.device().index));
  return properties.name;
}

}  // namespace heddle::detail
