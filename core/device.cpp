#include "heddle/core/device.h"

namespace heddle {
namespace {

bool is_cuda(std::string_view text) {
  if (!text.starts_with("cuda")) return false;
  if (text == "cuda") return true;
  const std::string_view index = text.substr(4);
  return index.size() > 1 && index[0] == ':' &&
         index.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace

Device Device::best() { return cpu(); }

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (is_cuda(text))
    throw UsageError(
        fmt::format("device \"{}\": this heddle was built without CUDA, use --devices cpu", text));
  throw UsageError(
      fmt::format("device \"{}\" is not one of: cpu, cuda:N, a list of these, all", text));
}

std::string Device::to_string() const {
  return type == DeviceType::kCpu ? "cpu" : fmt::format("cuda:{}", index);
}

std::vector<Device> parse_devices(std::string_view text) {
  if (text == "all") return {Device::best()};
  std::vector<Device> devices;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    devices.push_back(Device::parse(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return devices;
}

}  // namespace heddle
