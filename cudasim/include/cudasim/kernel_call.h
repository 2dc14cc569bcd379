#pragma once

#include <memory>
#include <utility>

/// Where hooked code does the engine's own work, so that it is not taken for a kernel's access.
#define CUDASIM_UNHOOKED __attribute__((no_sanitize("thread")))

namespace cudasim {

/// A kernel with its arguments, copied at launch: `invoke(arguments.get())` runs it for one thread.
struct KernelCall {
  void (*invoke)(const void* arguments) = nullptr;
  std::shared_ptr<const void> arguments;
};

/// Binds arguments to a kernel. The engine's reading of them is not instrumented, even when this
/// is compiled among kernels.
template <class... Parameters, class... Arguments>
KernelCall bind_kernel(void (*kernel)(Parameters...), Arguments&&... arguments) {
  auto call = [kernel, ... values = static_cast<Parameters>(std::forward<Arguments>(arguments))]()
                  CUDASIM_UNHOOKED { kernel(values...); };
  using Call = decltype(call);
  return {
      .invoke = [](const void* stored) CUDASIM_UNHOOKED { (*static_cast<const Call*>(stored))(); },
      .arguments = std::make_shared<const Call>(std::move(call))};
}

}  // namespace cudasim
