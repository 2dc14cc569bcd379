#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "heddle/core/dtype.h"
#include "heddle/core/memory.h"
#include "heddle/core/stream.h"
#include "heddle/core/view.h"

/// CUDA kernels against the CPU's on the same memory, byte for byte around what they write.
namespace heddle::testing {

inline const Device kTestDevice{DeviceType::kCuda, 0};

/// The same bytes on the host and on the device, with space before and after the elements that no
/// kernel may touch. `offset` elements are left out in front: views that are not aligned.
class Mirror {
 public:
  Mirror(DType dtype, const Shape& shape, int64_t offset = 0)
      : Mirror(dtype, shape, strides_for(shape), offset) {}
  Mirror(DType dtype, const Shape& shape, const Strides& strides, int64_t offset = 0);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Every element of the block, those between strides and around it included.
  Mirror& fill(const std::function<double(int64_t)>& value);
  Mirror& fill_random(uint64_t seed, double low = -2.0, double high = 2.0);

  View host() const { return {host_data(), dtype_, shape_, strides_}; }
  View device() const { return {device_data(), dtype_, shape_, strides_}; }
  template <class T>
  T* host_as() const {
    return static_cast<T*>(host_data());
  }
  template <class T>
  T* device_as() const {
    return static_cast<T*>(device_data());
  }
  void* host_data() const { return const_cast<std::byte*>(host_.data()) + begin_; }
  void* device_data() const { return device_ + begin_; }
  int64_t n() const { return numel(shape_); }

  void upload() const;
  /// The elements of the whole block as float64: the host's, and the device's as it is now.
  std::vector<double> host_values() const { return values_of(host_); }
  std::vector<double> device_values() const;
  std::vector<std::byte> device_bytes() const;
  const std::vector<std::byte>& host_bytes() const { return host_; }
  DType dtype() const { return dtype_; }

 private:
  std::vector<double> values_of(const std::vector<std::byte>& bytes) const;
  int64_t block_elements() const { return static_cast<int64_t>(host_.size()) / size_of(dtype_); }

  DType dtype_;
  Shape shape_;
  Strides strides_;
  int64_t begin_;
  std::vector<std::byte> host_;
  std::byte* device_ = nullptr;
};

/// The first element of the blocks for which |device - host| <= tolerance * max(1, |host|) does not
/// hold, in words; "" where there is none. NaN and infinities must be the same.
std::string first_difference(const Mirror& array, double tolerance);
/// The same for the bits.
std::string first_difference_in_bits(const Mirror& array);

/// Relative error that one rounding to `dtype` and a few float32 operations may make.
double rounding_of(DType dtype);

/// 0, 1, around a warp, a block of threads and its vectors.
const std::vector<int64_t>& kernel_sizes();
const std::vector<DType>& device_floats();  ///< float32, bfloat16, float16
const std::vector<DType>& every_dtype();

/// Bytes of the device's memory that `body` takes beside what is in use: a library's workspace.
template <class Body>
int64_t scratch_during(const Body& body) {
  memory::reset_peak(kTestDevice);
  const int64_t before = memory::stats(kTestDevice).in_use;
  body();
  return memory::stats(kTestDevice).peak_in_use - before;
}

/// The device's stream, on which the calling thread's kernels run.
StreamRef test_stream();

}  // namespace heddle::testing

#define CHECK_SAME(array, tolerance) \
  CHECK(::heddle::testing::first_difference(array, tolerance) == "")
#define CHECK_SAME_BITS(array) CHECK(::heddle::testing::first_difference_in_bits(array) == "")
