#pragma once

#include <limits>
#include <type_traits>

#include "heddle/core/dtype.h"

namespace heddle::cpu {

/// A float as an integer: cut towards zero, held within the type's range, NaN to 0. (A plain cast
/// of such values is undefined, and differs between processors.)
template <class To, class C>
HEDDLE_INLINE To integer_from_float(C value) {
  if constexpr (std::is_same_v<To, uint8_t>) {
    const C low = value > C(0) ? value : C(0);
    return static_cast<uint8_t>(static_cast<int32_t>(low < C(255) ? low : C(255)));
  } else {
    constexpr C kLimit = C(9223372036854775808.0);  // 2^63
    if (value >= kLimit) return std::numeric_limits<int64_t>::max();
    if (value < -kLimit) return std::numeric_limits<int64_t>::min();
    return value == value ? static_cast<int64_t>(value) : 0;
  }
}

/// Any element type to any other. Integers to uint8 keep their low eight bits.
template <class To, class From>
HEDDLE_INLINE To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using C = std::conditional_t<std::is_same_v<From, double>, double, float>;
    return integer_from_float<To>(static_cast<C>(value));
  } else if constexpr (std::is_integral_v<To> || std::is_same_v<To, double>) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

}  // namespace heddle::cpu
