#include "heddle/core/cuda_check.h"

#include <atomic>
#include <cstdio>

#include "heddle/core/sync.h"

namespace heddle::detail {
namespace {

int current_device() noexcept {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

std::string place(const char* file, int line) {
  return fmt::format("{}:{}", short_path(file), line);
}

/// What was thrown last: a device that has failed gives it again to every call.
std::atomic<cudaError_t> last_thrown{cudaSuccess};

[[noreturn]] void throw_cuda(cudaError_t status, const std::string& text) {
  last_thrown = status;
  (void)cudaGetLastError();  // what was reported is not reported again
  throw CudaError(text, cudaGetErrorName(status));
}

std::string capability_of(int device) {
  int major = 0, minor = 0;
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return fmt::format("{}.{}", major, minor);
}

std::string launch_error(cudaError_t status, const char* kernel, const char* file, int line) {
  const int device = current_device();
  std::string hint;
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    hint = fmt::format("; the device has compute capability {}, this heddle was built for {}",
                       capability_of(device), HEDDLE_CUDA_ARCHITECTURES);
  return fmt::format("{}: {}: {} (device cuda:{}) at {}{}", kernel, cudaGetErrorName(status),
                     cudaGetErrorString(status), device, place(file, line), hint);
}

/// What work in the stream has ended with; a stream that is being captured runs nothing.
cudaError_t wait_for(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(stream, &capture);
  if (status != cudaSuccess || capture != cudaStreamCaptureStatusNone) return status;
  return cudaStreamSynchronize(stream);
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) [[likely]]
    return;
  throw_cuda(status,
             fmt::format("{}: {}: {} (device cuda:{}) at {}", call, cudaGetErrorName(status),
                         cudaGetErrorString(status), current_device(), place(file, line)));
}

void warn_cuda(cudaError_t status, const char* call, const char* file, int line) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  (void)cudaGetLastError();
  if (status == last_thrown) return;
  (void)std::fprintf(stderr, "heddle: %s: %s at %s:%d\n", call, cudaGetErrorName(status), file,
                     line);
}

void check_launch(cudaError_t status, const char* kernel, cudaStream_t stream, const char* file,
                  int line) {
  if (status == cudaSuccess) status = cudaGetLastError();
  if (status == cudaSuccess && wants_sync()) status = wait_for(stream);
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda(status, launch_error(status, kernel, file, line));
}

}  // namespace heddle::detail
