#pragma once

#include <cmath>

#include "heddle/core/rng.h"

namespace heddle {
namespace detail {

template <int N>
HEDDLE_INLINE float polynomial(const float (&coefficients)[N], float x) {
  float sum = coefficients[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

/// Natural logarithm of a positive normal float. ln(1 + f) / f as a Chebyshev interpolant of degree
/// 10 on [sqrt(1/2) - 1, sqrt(2) - 1].
HEDDLE_INLINE float log_of(float x) {
  constexpr float kLog[] = {1.0F,
                            -0.5F,
                            0.33333301544189453F,
                            -0.25000062584877014F,
                            0.20002534985542297F,
                            -0.16666555404663086F,
                            0.14212290942668915F,
                            -0.12420821189880371F,
                            0.11945877969264984F,
                            -0.11620648205280304F,
                            0.06572327017784119F};
  uint32_t bits = std::bit_cast<uint32_t>(x);
  int exponent = static_cast<int>(bits >> 23) - 127;
  float mantissa = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f800000U);  // [1, 2)
  if (mantissa > 1.41421356F) {
    mantissa *= 0.5F;
    ++exponent;
  }
  const float f = mantissa - 1.0F;
  return std::fma(static_cast<float>(exponent), 0.693147181F, f * polynomial(kLog, f));
}

/// cos(2 pi t) for t in [0, 1): one of two polynomials in t^2 on [-1/8, 1/8] by quadrant.
HEDDLE_INLINE float cos_of_turn(float t) {
  constexpr float kCos[] = {1.0F, -19.739208221435547F, 64.93931579589844F, -85.4428482055664F,
                            59.22016906738281F};
  constexpr float kSin[] = {6.2831854820251465F, -41.34170150756836F, 81.6052017211914F,
                            -76.69786834716797F, 41.47283172607422F};
  const int quadrant = static_cast<int>(t * 4.0F + 0.5F);
  const float rest = t - static_cast<float>(quadrant) * 0.25F;
  const float square = rest * rest;
  const float cosine = polynomial(kCos, square);
  const float sine = rest * polynomial(kSin, square);
  switch (quadrant & 3) {
    case 0:
      return cosine;
    case 1:
      return -sine;
    case 2:
      return -cosine;
    default:
      return sine;
  }
}

}  // namespace detail

/// A standard normal number from two words: Box-Muller with the logarithm and cosine of one shared
/// polynomial of explicit fused multiply-adds, so that every device has the same bits. (Elsewhere
/// in it, contracting a product and a sum changes nothing: the product is exact.)
HEDDLE_INLINE float normal_from_bits(uint32_t a, uint32_t b) {
  const float positive = static_cast<float>((a >> 8) + 1) * 0x1p-24F;  // (0, 1]
  return std::sqrt(-2.0F * detail::log_of(positive)) * detail::cos_of_turn(uniform_from_bits(b));
}

}  // namespace heddle
