#pragma once

#include <bit>
#include <cmath>

#include "heddle/core/dtype.h"

/// exp, tanh and the normal distribution's tail as branch-free float32 code, so that loops over
/// them are vectorised (the C library's are calls). float64 uses the C library. Polynomials are
/// weighted near-minimax fits; errors are measured over the whole range in tests/ops/unary_test.
namespace heddle::math {

/// e^x, to 2 units in the last place. Source: x = n ln 2 + r (Cody and Waite), e^r by polynomial.
HEDDLE_INLINE float exp_of(float x) {
  constexpr float kRound = 12582912.0F;   // 1.5 * 2^23: adding it rounds to whole numbers
  float bounded = x > 89.0F ? 89.0F : x;  // infinite from there on; NaN passes
  bounded = bounded < -104.0F ? -104.0F : bounded;
  const float shifted = bounded * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;  // n * 0.693.. is exact
  float p = 0.00138131424F;
  p = p * r + 0.00836941904F;
  p = p * r + 0.0416684568F;
  p = p * r + 0.166665148F;
  p = p * r + 0.499999931F;
  p = (p * r) * r + r + 1.0F;
  // 2^n in two factors, since n may be 128 or below -126.
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(exponent) >> 1);
  const float scale = std::bit_cast<float>((half + 127U) << 23);
  const float rest = std::bit_cast<float>((exponent - half + 127U) << 23);
  return p * scale * rest;
}
HEDDLE_INLINE double exp_of(double x) { return std::exp(x); }

/// tanh x, to 3 units in the last place.
HEDDLE_INLINE float tanh_of(float x) {
  const float magnitude = x < 0.0F ? -x : x;
  const float square = x * x;
  float p = -0.00570497837F;
  p = p * square + 0.0206390787F;
  p = p * square + -0.0537397122F;
  p = p * square + 0.133314422F;
  p = p * square + -0.333332819F;
  const float small = x + x * (square * p);
  const float large = 1.0F - 2.0F / (exp_of(2.0F * magnitude) + 1.0F);
  return magnitude < 0.625F ? small : std::copysign(large, x);
}
HEDDLE_INLINE double tanh_of(double x) { return std::tanh(x); }

/// Distribution function and density of the standard normal distribution at x.
template <class C>
struct Normal {
  C cdf;
  C density;
};

/// The tail is density * erfcx, erfcx by a polynomial in 1 / (1 + |x| / sqrt(8)): relative error
/// under 4e-7 also far out, where 1 + erf would cancel.
HEDDLE_INLINE Normal<float> normal_at(float x) {
  const float magnitude = x < 0.0F ? -x : x;
  const float bell = exp_of(-0.5F * x * x);
  const float t = 1.0F / (1.0F + magnitude * 0.353553391F);
  float p = -0.0591935648F;
  p = p * t + 0.285183927F;
  p = p * t + -0.488463061F;
  p = p * t + 0.279514967F;
  p = p * t + -0.027624972F;
  p = p * t + 0.203110529F;
  p = p * t + 0.242996474F;
  p = p * t + 0.282390085F;
  p = p * t + 0.282085574F;
  const float tail = 0.5F * t * p * bell;
  return {x < 0.0F ? tail : 1.0F - tail, 0.398942280F * bell};
}
HEDDLE_INLINE Normal<double> normal_at(double x) {
  return {0.5 * std::erfc(x * -0.70710678118654752), 0.39894228040143268 * std::exp(-0.5 * x * x)};
}

}  // namespace heddle::math
