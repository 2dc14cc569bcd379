#include "heddle/nn/modules/pooling.h"

namespace heddle {
namespace {

std::string describe_pool(const char* name, const Pool2dOptions& options) {
  std::string text = fmt::format("{}({}x{}", name, options.kernel.first, options.kernel.second);
  if (options.stride && *options.stride != options.kernel)
    text += fmt::format(", stride {}x{}", options.stride->first, options.stride->second);
  if (options.padding.first != 0 || options.padding.second != 0)
    text += fmt::format(", padding {}x{}", options.padding.first, options.padding.second);
  return text + ")";
}

}  // namespace

std::string MaxPool2d::describe() const { return describe_pool("MaxPool2d", options_); }

std::string AvgPool2d::describe() const { return describe_pool("AvgPool2d", options_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(int64_t size) {
  HEDDLE_CHECK(size == 1, "AdaptiveAvgPool2d: size is {}, expected 1", size);
}

}  // namespace heddle
