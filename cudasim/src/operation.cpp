#include "operation.h"

#include "symbols.h"

namespace cudasim {

std::string describe(const Operation& operation) {
  std::string text = operation.work.kind;
  if (operation.work.bytes > 0) text += " " + std::to_string(operation.work.bytes) + " bytes";
  if (operation.work.function != nullptr) text += " " + kernel_name(operation.work.function);
  text += operation.stream == 0 ? std::string(" in the default stream")
                                : " in stream " + std::to_string(operation.stream);
  return text + " of device " + std::to_string(operation.device);
}

}  // namespace cudasim
