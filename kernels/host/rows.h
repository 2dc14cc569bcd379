#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "heddle/core/dtype.h"

/// What softmax needs of a row. Maxima and sums are kept in a fixed number of lanes, so that every
/// instruction set vectorises them and all give the same bits.
namespace heddle::cpu {

inline constexpr int kRowLanes = 16;

/// The type that a float of any width is computed in.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// e^x for x <= 88, in plain operations that vectorise; NaN stays NaN, results below float32's
/// normal range are zero. Error below 2 units in the last place. Source: Cephes' expf.
HEDDLE_INLINE float exp_bounded(float x) {
  constexpr float kLowest = -87.33654F;        // log of the smallest normal float
  constexpr float kRoundingShift = 0x1.8p23F;  // adding it leaves the nearest integer
  constexpr float kLn2High = 0.693359375F;     // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * 1.44269504F + kRoundingShift;
  const float n = shifted - kRoundingShift;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float poly = 1.9875691500e-4F;
  poly = poly * r + 1.3981999507e-3F;
  poly = poly * r + 8.3334519073e-3F;
  poly = poly * r + 4.1665795894e-2F;
  poly = poly * r + 1.6666665459e-1F;
  poly = poly * r + 5.0000001201e-1F;
  const float mantissa = poly * (r * r) + r + 1.0F;
  const uint32_t bits =
      std::bit_cast<uint32_t>(mantissa) + (std::bit_cast<uint32_t>(shifted) << 23);
  const float result = x < kLowest ? 0.0F : std::bit_cast<float>(bits);
  return x != x ? x : result;
}
HEDDLE_INLINE double exp_bounded(double x) { return std::exp(x); }

/// The largest element that is not NaN; -infinity where there is none.
template <class T>
HEDDLE_INLINE Compute<T> row_max(const T* x, int64_t n) {
  using C = Compute<T>;
  C lanes[kRowLanes];
  for (C& lane : lanes) lane = -std::numeric_limits<C>::infinity();
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes)
    for (int k = 0; k < kRowLanes; ++k) lanes[k] = C(x[i + k]) > lanes[k] ? C(x[i + k]) : lanes[k];
  for (int k = 0; i < n; ++i, ++k) lanes[k] = C(x[i]) > lanes[k] ? C(x[i]) : lanes[k];
  C result = lanes[0];
  for (const C lane : lanes) result = lane > result ? lane : result;
  return result;
}

/// Sum of term(i) for i in [0, n). `term` must be always inlined.
template <class C, class Term>
HEDDLE_INLINE C row_sum(int64_t n, const Term& term) {
  C lanes[kRowLanes] = {};
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes)
    for (int k = 0; k < kRowLanes; ++k) lanes[k] += term(i + k);
  for (int k = 0; i < n; ++i, ++k) lanes[k] += term(i);
  C result = C(0);
  for (const C lane : lanes) result += lane;
  return result;
}

/// log(sum of e^(x - max)) of a row whose maximum is `max`.
template <class T>
HEDDLE_INLINE Compute<T> row_log_sum_exp(const T* x, int64_t n, Compute<T> max) {
  using C = Compute<T>;
  const C sum = row_sum<C>(
      n, [=](int64_t i) __attribute__((always_inline)) { return exp_bounded(C(x[i]) - max); });
  return std::log(sum);
}

}  // namespace heddle::cpu
