#include "heddle/core/context_cuda.h"

namespace heddle {

StreamRef current_stream(Device device) {
  if (device.type == DeviceType::kCpu) return {};
  return cuda::context(device).stream();
}

}  // namespace heddle
