#include "operation.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace cudasim {
namespace {

std::string name_of(const void* function) {
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

}  // namespace

std::string describe(const Operation& operation) {
  std::string text = operation.work.kind;
  if (operation.work.bytes > 0) text += " " + std::to_string(operation.work.bytes) + " bytes";
  if (operation.work.function != nullptr) text += " " + name_of(operation.work.function);
  text += operation.stream == 0 ? std::string(" in the default stream")
                                : " in stream " + std::to_string(operation.stream);
  return text + " of device " + std::to_string(operation.device);
}

}  // namespace cudasim
