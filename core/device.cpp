#include "heddle/core/device.h"

#include <charconv>

#include "heddle/core/flavour.h"
#ifdef HEDDLE_WITH_CUDA
#include "heddle/core/cuda_devices.h"
#endif

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

#ifdef HEDDLE_WITH_CUDA
namespace {

Device parse_cuda(std::string_view text) {
  Device device{DeviceType::kCuda, 0};
  if (text != "cuda") {
    const std::string_view index = text.substr(5);
    const auto [end, error] =
        std::from_chars(index.data(), index.data() + index.size(), device.index);
    if (error != std::errc() || end != index.data() + index.size())
      throw UsageError(fmt::format("device \"{}\": its number is too large", text));
  }
  const std::string missing = cuda::why_missing(device);
  if (!missing.empty()) throw UsageError(fmt::format("device \"{}\": {}", text, missing));
  return device;
}

}  // namespace

bool built_with_cuda() { return true; }

std::string Device::description() const {
  return type == DeviceType::kCpu ? "cpu" : cuda::description(*this);
}

std::vector<Device> Device::all() {
  std::vector<Device> devices{cpu()};
  for (int index = 0; index < cuda::device_count(); ++index)
    devices.push_back({DeviceType::kCuda, index});
  return devices;
}
#else
namespace {

Device parse_cuda(std::string_view text) {
  throw UsageError(
      fmt::format("device \"{}\": this heddle was built without CUDA, use --devices cpu", text));
}

}  // namespace

bool built_with_cuda() { return false; }

std::string Device::description() const { return to_string(); }

std::vector<Device> Device::all() { return {cpu()}; }
#endif

Device Device::best() {
  const std::vector<Device> devices = all();
  return devices.size() > 1 ? devices[1] : devices[0];
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (is_cuda(text)) return parse_cuda(text);
  throw UsageError(
      fmt::format("device \"{}\" is not one of: cpu, cuda:N, a list of these, all", text));
}

std::string Device::to_string() const {
  return type == DeviceType::kCpu ? "cpu" : fmt::format("cuda:{}", index);
}

std::vector<Device> parse_devices(std::string_view text) {
  std::vector<Device> devices;
  if (text == "all") {
    for (const Device device : Device::all())
      if (device.type == DeviceType::kCuda) devices.push_back(device);
    return devices.empty() ? std::vector<Device>{Device::cpu()} : devices;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    devices.push_back(Device::parse(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return devices;
}

}  // namespace heddle
