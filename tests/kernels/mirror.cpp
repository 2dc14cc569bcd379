#include "heddle/tests/kernels/mirror.h"

#include <algorithm>
#include <cmath>

#include "heddle/core/cuda_check.h"
#include "heddle/core/rng.h"

namespace heddle::testing {
namespace {

constexpr int64_t kMargin = 256;  // bytes: keeps the first element at a multiple of 16

template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

}  // namespace

Mirror::Mirror(DType dtype, const Shape& shape, const Strides& strides, int64_t offset)
    : dtype_(dtype), shape_(shape), strides_(strides) {
  int64_t extent = numel(shape) > 0 ? 1 : 0;
  for (int i = 0; i < shape.size() && extent > 0; ++i) extent += (shape[i] - 1) * strides[i];
  begin_ = kMargin + offset * size_of(dtype);
  const int64_t bytes = begin_ + extent * size_of(dtype) + kMargin;
  host_.resize(static_cast<size_t>((bytes + 15) / 16 * 16));
  HEDDLE_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&device_), host_.size()));
  upload();
}

Mirror::~Mirror() { HEDDLE_CUDA_WARN(cudaFree(device_)); }

Mirror& Mirror::fill(const std::function<double(int64_t)>& value) {
  dispatch_all(dtype_, [&]<class T>() {
    T* data = reinterpret_cast<T*>(host_.data());
    for (int64_t i = 0; i < block_elements(); ++i) data[i] = element_of<T>(value(i));
  });
  upload();
  return *this;
}

Mirror& Mirror::fill_random(uint64_t seed, double low, double high) {
  Rng rng(seed, RngPurpose::kUser);
  const bool integer = !is_floating(dtype_);
  if (dtype_ == DType::kUInt8) low = 0.0;
  return fill([&](int64_t) {
    const double value = low + (high - low) * static_cast<double>(rng.next_uniform());
    return integer ? std::round(value) : value;
  });
}

void Mirror::upload() const {
  HEDDLE_CUDA_CHECK(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice));
}

std::vector<std::byte> Mirror::device_bytes() const {
  std::vector<std::byte> bytes(host_.size());
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  HEDDLE_CUDA_CHECK(cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost));
  return bytes;
}

std::vector<double> Mirror::device_values() const { return values_of(device_bytes()); }

std::vector<double> Mirror::values_of(const std::vector<std::byte>& bytes) const {
  std::vector<double> values;
  dispatch_all(dtype_, [&]<class T>() {
    const T* data = reinterpret_cast<const T*>(bytes.data());
    for (int64_t i = 0; i < block_elements(); ++i) values.push_back(static_cast<double>(data[i]));
  });
  return values;
}

namespace {

std::string difference(int64_t element, double host, double device) {
  return fmt::format("element {} of the block: the CPU has {}, the device {}", element, host,
                     device);
}

bool is_close(double host, double device, double tolerance) {
  if (std::isnan(host)) return std::isnan(device);
  if (std::isinf(host)) return host == device;
  return std::abs(device - host) <= tolerance * std::max(1.0, std::abs(host));
}

}  // namespace

std::string first_difference(const Mirror& array, double tolerance) {
  const std::vector<double> host = array.host_values();
  const std::vector<double> device = array.device_values();
  for (size_t i = 0; i < host.size(); ++i)
    if (!is_close(host[i], device[i], tolerance))
      return difference(static_cast<int64_t>(i), host[i], device[i]);
  return "";
}

std::string first_difference_in_bits(const Mirror& array) {
  const std::vector<std::byte> device = array.device_bytes();
  const std::vector<std::byte>& host = array.host_bytes();
  const auto [at, other] = std::mismatch(host.begin(), host.end(), device.begin());
  if (at == host.end()) return "";
  const int64_t element = (at - host.begin()) / size_of(array.dtype());
  const auto i = static_cast<size_t>(element);
  return difference(element, array.host_values()[i], array.device_values()[i]);
}

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-7;
    case DType::kFloat16:
      return 0x1p-10;
    default:
      return 0x1p-20;
  }
}

const std::vector<int64_t>& kernel_sizes() {
  static const std::vector<int64_t> sizes{0, 1, 7, 31, 32, 33, 1023, 1025, 4096, 9001};
  return sizes;
}

const std::vector<DType>& device_floats() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  return dtypes;
}

const std::vector<DType>& every_dtype() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                         DType::kFloat16, DType::kUInt8,   DType::kInt64};
  return dtypes;
}

StreamRef test_stream() { return current_stream(kTestDevice); }

}  // namespace heddle::testing
