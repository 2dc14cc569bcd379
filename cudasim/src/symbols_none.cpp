// Kernels' names without the checks, from what the linker exports.
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "symbols.h"

namespace cudasim {

std::string kernel_name(const void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_sname == nullptr) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", function);
    return address;
  }
  char* text = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr);
  std::string name = text == nullptr ? info.dli_sname : text;
  std::free(text);
  return name;
}

}  // namespace cudasim
