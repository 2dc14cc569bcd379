#pragma once

#include <vector>

#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

/// What the tests of matrix products and convolutions on a device share. Results are compared with
/// plain float64 loops, which stand in each test.
namespace heddle::testing {

/// The elements from the first on, as float64: an operand as the oracle reads it.
inline std::vector<double> to_doubles(const Mirror& array, int64_t n) {
  std::vector<double> values;
  dispatch_float(array.dtype(), [&]<class T>() {
    const T* data = array.host_as<T>();
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(data[i]));
  });
  return values;
}

/// Makes the oracle's values the host's side of a result whose device side has been computed.
inline void expect(Mirror& array, const std::vector<double>& values) {
  dispatch_float(array.dtype(), [&]<class T>() {
    T* data = array.host_as<T>();
    for (size_t i = 0; i < values.size(); ++i) data[i] = T(static_cast<float>(values[i]));
  });
}

/// Nothing that a kernel leaves out passes for a result.
inline void fill_nan(Mirror& array) {
  array.fill([](int64_t) { return NAN; });
}

/// Error of sums of `depth` products of values up to 2 that are kept in float32, relative to 1 or
/// the sum, with the rounding of the result.
inline double product_tolerance(DType dtype, int64_t depth) {
  return rounding_of(dtype) + 0x1p-22 * static_cast<double>(depth);
}

}  // namespace heddle::testing
