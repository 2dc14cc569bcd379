#include "cudasim/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace cudasim {

namespace {

/// a + b rounded to odd: a further rounding of the result to fewer digits is then the only one.
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double from_a = sum - b;
  const double lost = (a - from_a) + (b - (sum - from_a));
  if (lost == 0.0) return sum;
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (bits & 1U) return sum;
  // Even, hence not the truth cut off: the neighbour on the truth's side is odd.
  return std::nextafter(sum, lost > 0.0 ? HUGE_VAL : -HUGE_VAL);
}

}  // namespace

double fused_multiply_add(double a, double b, double c, int digits, int min_exponent) {
  const double sum = add_to_odd(a * b, c);
  if (!std::isfinite(sum) || sum == 0.0) return sum;
  const int exponent = std::max(std::ilogb(sum), min_exponent);
  const int unit = exponent - (digits - 1);
  return std::ldexp(std::nearbyint(std::ldexp(sum, -unit)), unit);
}

}  // namespace cudasim
