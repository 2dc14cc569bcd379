#include "heddle/apps/bench_kernels/cases.h"

#include <algorithm>
#include <cmath>

#include "heddle/nn/ops.h"

namespace heddle::bench {

Tensor random_input(int64_t n, DType dtype, const Setting& setting, float low) {
  Tensor values = Tensor::empty({n}, dtype);
  dispatch_all(dtype, [&]<class T>() {
    T* const to = values.data<T>();
    uint32_t state = 1;
    for (int64_t i = 0; i < n; ++i) {
      state = state * 1664525U + 1013904223U;
      if constexpr (std::is_integral_v<T>) {
        to[i] = T(0);
      } else {
        to[i] = T(low + (1.0F - low) * static_cast<float>(state >> 8) * 0x1p-24F);
      }
    }
  });
  if (setting.reference && is_floating(dtype)) values = to(values, DType::kFloat64);
  return to(values, setting.device);
}

Tensor output(int64_t n, DType dtype, const Setting& setting) {
  const DType kept = is_floating(dtype) ? setting.dtype_of(dtype) : dtype;
  return Tensor::empty({n}, kept, MemoryFormat::kContiguous, setting.device);
}

std::vector<double> reference_of(const Case& c) {
  const Prepared prepared = c.prepare({Device::cpu(), true});
  if (!prepared.result.defined()) return {};
  prepared.sides.front().run();
  return prepared.result.to_vector<double>();
}

double max_error(const Prepared& prepared, const Side& side, const std::vector<double>& reference) {
  if (reference.empty()) return -1.0;
  side.run();
  const std::vector<double> got = prepared.result.to_vector<double>();
  double error = 0.0, largest = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double difference = std::abs(got[i] - reference[i]);
    error = std::isnan(difference) ? HUGE_VAL : std::max(error, difference);
    largest = std::max(largest, std::abs(reference[i]));
  }
  return largest > 0.0 ? error / largest : error;
}

std::vector<Case> all_cases(const Scale& scale) {
  std::vector<Case> all;
  for (const auto& cases : {conv2d_cases(scale), product_cases(scale), image_cases(scale),
                            elementwise_cases(scale), row_cases(scale), optimizer_cases(scale)})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace heddle::bench
