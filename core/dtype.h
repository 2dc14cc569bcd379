#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "heddle/core/error.h"

namespace heddle {

enum class DType : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16, kUInt8, kInt64 };

/// Inlined always, so that code compiled for several instruction sets, or with and without
/// cudasim's hooks, never shares a symbol. Under nvcc it is for both sides: what it marks takes and
/// returns values and calls nothing but the like, constexpr functions and <cmath>.
#ifdef __CUDACC__
#define HEDDLE_INLINE __host__ __device__ __forceinline__
#else
#define HEDDLE_INLINE [[gnu::always_inline]] inline
#endif

/// bfloat16: the upper half of a float32, rounded to nearest even.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  HEDDLE_INLINE explicit BFloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    const uint32_t quiet_nan = (word >> 16) | 0x40U;
    bits = static_cast<uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
  }
  HEDDLE_INLINE operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE binary16, rounded to nearest even, subnormals kept.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  HEDDLE_INLINE explicit Float16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (word >> 16) & 0x8000U;
    const uint32_t magnitude = word & 0x7fffffffU;
    // Adding 0.5 in float32 rounds the bits of a subnormal result; integer work throughout, since
    // the float unit may be flushing subnormals to zero.
    uint32_t half;
    if (magnitude >= 0x47800000U) {  // 65536 and more, infinity, NaN
      half = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
    } else if (magnitude < 0x38800000U) {  // below the smallest normal half, 2^-14
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    } else {
      half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  HEDDLE_INLINE operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffU) << 13;
    uint32_t word;
    if (magnitude >= 0x0f800000U) {  // infinity, NaN
      word = magnitude | 0x7f800000U;
    } else if (magnitude < 0x00800000U) {  // zero, subnormal: value is magnitude * 2^-24
      word = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000U) -
                                     std::bit_cast<float>(0x38800000U));
    } else {
      word = magnitude + 0x38000000U;
    }
    return std::bit_cast<float>(sign | word);
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBFloat16;
  if constexpr (std::is_same_v<T, Float16>) return DType::kFloat16;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
}();

/// The type that sums of T are kept in: float32 for 16-bit floats, otherwise T, and int64 for
/// uint8.
template <class T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float,
                       std::conditional_t<std::is_same_v<T, uint8_t>, int64_t, T>>;

int64_t size_of(DType dtype);           ///< Units: bytes an element.
std::string_view name_of(DType dtype);  ///< "float32", ...
bool is_floating(DType dtype);
DType promote(DType a, DType b);  ///< PyTorch's rule: floats win over integers, then width.

/// Calls `body.template operator()<T>()` with the C++ type of a floating dtype. The switch has no
/// default, so that a new dtype fails to compile until it is handled here.
template <class Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kUInt8:
    case DType::kInt64:
      break;
  }
  fail("dtype is {}, expected a floating one", name_of(dtype));
}

/// As dispatch_float, for every dtype.
template <class Body>
decltype(auto) dispatch_all(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kUInt8:
      return body.template operator()<uint8_t>();
    case DType::kInt64:
      return body.template operator()<int64_t>();
  }
  fail("dtype {} is not one of heddle's", static_cast<int>(dtype));
}

}  // namespace heddle

template <>
struct fmt::formatter<heddle::DType> : fmt::formatter<std::string_view> {
  auto format(heddle::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(heddle::name_of(dtype), context);
  }
};
