#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/apps/support/bench.h"
#include "heddle/core/tensor.h"

namespace heddle::bench {

/// Where and how the sides of a case run.
struct Setting {
  Device device;
  bool reference = false;  ///< In float64, from the same numbers: what errors are measured against.

  DType dtype_of(DType dtype) const { return reference ? DType::kFloat64 : dtype; }
  bool beside_onednn() const { return device.type == DeviceType::kCpu && !reference; }
};

/// A case with its memory in place.
struct Prepared {
  std::vector<Side> sides;   ///< The first one is heddle's native kernel.
  Tensor result;             ///< What heddle's sides write; undefined where they update in place.
  std::vector<Tensor> held;  ///< What the sides work on.

  /// Keeps the tensor and returns where its elements lie.
  void* hold(const Tensor& tensor) {
    held.push_back(tensor);
    return tensor.raw_data();
  }
};

/// One operation, direction, shape and dtype, with every way to compute it that this build has.
struct Case {
  std::string name;  ///< "conv2d/forward/simple_cnn.conv2/float32"
  DType dtype = DType::kFloat32;
  double flops = 0.0;  ///< 0 where memory, not arithmetic, bounds the operation.
  double bytes = 0.0;  ///< Read and written at least once.
  std::function<Prepared(const Setting&)> prepare;
};

/// Which cases there are: sizes follow the number of images in a batch.
struct Scale {
  int64_t batch = 64;
  std::vector<DType> dtypes = {DType::kFloat32, DType::kBFloat16};
};

std::vector<Case> conv2d_cases(const Scale& scale);
std::vector<Case> product_cases(const Scale& scale);      ///< linear and matmul
std::vector<Case> image_cases(const Scale& scale);        ///< pooling, batch-norm, dropout
std::vector<Case> elementwise_cases(const Scale& scale);  ///< unary, binary, copies, fills
std::vector<Case> row_cases(const Scale& scale);          ///< reductions, softmax, losses
std::vector<Case> optimizer_cases(const Scale& scale);
std::vector<Case> all_cases(const Scale& scale);

/// n random numbers in [low, 1) as `dtype` holds them (zeros where that is an integer), the same
/// ones in each run. In a reference setting they come as float64.
Tensor random_input(int64_t n, DType dtype, const Setting& setting, float low = -1.0F);
Tensor output(int64_t n, DType dtype, const Setting& setting);

/// The largest error of the side's result, relative to the largest element of the reference; below
/// zero where the case has no result.
double max_error(const Prepared& prepared, const Side& side, const std::vector<double>& reference);
/// The result in float64, by the CPU's native kernel; empty where the case has none.
std::vector<double> reference_of(const Case& c);

}  // namespace heddle::bench
