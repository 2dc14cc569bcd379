#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "heddle/core/dtype.h"
#include "heddle/core/rng.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/tests/support/catch.h"

/// What the tests of convolution, linear and matmul share.
namespace heddle::test {

/// `value` in T, rounded through float32 for 16-bit floats.
template <class T>
T value_as(double value) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// An array with a canary on both sides and its start off every vector's alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n, double fill = std::numeric_limits<double>::quiet_NaN())
      : values_(static_cast<size_t>(n + 2), value_as<T>(fill)) {
    values_.front() = values_.back() = value_as<T>(kCanary);
  }
  T* data() { return values_.data() + 1; }
  const T* data() const { return values_.data() + 1; }
  int64_t size() const { return static_cast<int64_t>(values_.size()) - 2; }
  bool intact() const {
    return double(values_.front()) == kCanary && double(values_.back()) == kCanary;
  }
  std::vector<double> to_doubles() const { return {values_.begin() + 1, values_.end() - 1}; }
  bool same_bits(const Guarded& other) const {
    return values_.size() == other.values_.size() &&
           std::memcmp(data(), other.data(), static_cast<size_t>(size()) * sizeof(T)) == 0;
  }

 private:
  static constexpr double kCanary = 12288.0;
  std::vector<T> values_;
};

template <class T>
Guarded<T> random_values(int64_t n, uint64_t seed) {
  Guarded<T> values(n);
  Rng rng(seed, RngPurpose::kUser);
  for (int64_t i = 0; i < n; ++i) values.data()[i] = value_as<T>(rng.next_normal());
  return values;
}

template <class T>
constexpr double unit_roundoff = 0;  ///< Of 16-bit floats.
template <>
inline constexpr double unit_roundoff<BFloat16> = 1.0 / 256;
template <>
inline constexpr double unit_roundoff<Float16> = 1.0 / 2048;

/// Sums of n products of normal values: their rounding errors add up like a random walk, and no
/// entry of a large result may leave six times that. A 16-bit result is rounded once, by half a
/// unit in the last place of a value that is hardly more than six times sqrt(n).
template <class T>
double product_tolerance(int64_t n) {
  if constexpr (sizeof(T) == 2) return 6.0 * unit_roundoff<T> * (1.0 + std::sqrt(double(n)));
  return 6.0 * std::numeric_limits<T>::epsilon() * (1.0 + std::sqrt(double(n))) *
         (1.0 + std::sqrt(double(n)));
}

/// The largest difference, infinite where one side is NaN.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest =
        difference <= largest
            ? largest
            : (difference == difference ? difference : std::numeric_limits<double>::infinity());
  }
  return largest;
}

/// Puts instruction set, threads and provider back when a test ends.
class SettingsGuard {
 public:
  SettingsGuard() : isa_(cpu::active_isa()), threads_(num_threads()), provider_(provider()) {
    set_provider(Provider::kNative);
  }
  ~SettingsGuard() {
    cpu::set_active_isa(isa_);
    set_num_threads(threads_);
    set_provider(provider_);
  }
  SettingsGuard(const SettingsGuard&) = delete;
  SettingsGuard& operator=(const SettingsGuard&) = delete;

 private:
  cpu::Isa isa_;
  int threads_;
  Provider provider_;
};

}  // namespace heddle::test
