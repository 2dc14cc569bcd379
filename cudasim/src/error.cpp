#include "error.h"

#include <atomic>
#include <cstdlib>

namespace cudasim {
namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;
std::atomic<bool> driver_gone{false};

/// As under CUDA, the driver goes away when the handlers of exit run that were registered before
/// the first call: statics made before it, and destroyed after, find it gone.
void register_exit() {
  static const int registered = std::atexit([] { driver_gone = true; });
  (void)registered;
}

struct ErrorName {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define CUDASIM_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorName kErrors[] = {
    CUDASIM_ERROR(cudaSuccess, "no error"),
    CUDASIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    CUDASIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    CUDASIM_ERROR(cudaErrorInitializationError, "initialization error"),
    CUDASIM_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    CUDASIM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    CUDASIM_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    CUDASIM_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    CUDASIM_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    CUDASIM_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    CUDASIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    CUDASIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    CUDASIM_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    CUDASIM_ERROR(cudaErrorPeerAccessUnsupported,
                  "peer access is not supported between these two devices"),
    CUDASIM_ERROR(cudaErrorUnsupportedPtxVersion,
                  "the provided PTX was compiled with an unsupported toolchain."),
    CUDASIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    CUDASIM_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    CUDASIM_ERROR(cudaErrorNotReady, "device not ready"),
    CUDASIM_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    CUDASIM_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    CUDASIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    CUDASIM_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    CUDASIM_ERROR(cudaErrorAssert, "device-side assert triggered"),
    CUDASIM_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    CUDASIM_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    CUDASIM_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    CUDASIM_ERROR(cudaErrorNotSupported, "operation not supported"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    CUDASIM_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    CUDASIM_ERROR(cudaErrorStreamCaptureMerge,
                  "operation would result in a merge of separate capture sequences"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnmatched,
                  "capture was not ended in the same stream as it "
                  "began"),
    CUDASIM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    CUDASIM_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    CUDASIM_ERROR(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    CUDASIM_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing stream"),
    CUDASIM_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    CUDASIM_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef CUDASIM_ERROR

const ErrorName* find_error(cudaError_t error) {
  for (const ErrorName& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

}  // namespace

cudaError_t error_named(std::string_view name) {
  for (const ErrorName& entry : kErrors) {
    if (entry.name == name) return entry.error;
  }
  return cudaSuccess;
}

cudaError_t begin_call() {
  register_exit();
  if (driver_gone) return cudaErrorCudartUnloading;
  if (current_operation != nullptr) return cudaErrorNotPermitted;
  Runtime& state = runtime();
  if (state.n_devices == 0) return cudaErrorNoDevice;
  return state.current().sticky;
}

cudaError_t end_call(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace cudasim

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = cudasim::runtime().current().sticky;
  return sticky != cudaSuccess ? sticky : cudasim::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  cudasim::last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const cudasim::ErrorName* entry = cudasim::find_error(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const cudasim::ErrorName* entry = cudasim::find_error(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}
