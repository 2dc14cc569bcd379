#include "heddle/core/dtype.h"

#include <cmath>
#include <vector>

#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

/// The value of 16 bits by the definition of the format, apart from the code under test.
double value_of(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class Half>
void check_format(int exponent_bits) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    Half half;
    half.bits = static_cast<uint16_t>(i);
    const double exact = value_of(half.bits, exponent_bits);
    const float value = half;
    if (std::isnan(exact)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(static_cast<float>(Half(value))));
      continue;
    }
    REQUIRE(static_cast<double>(value) == exact);
    REQUIRE(Half(value).bits == half.bits);
    if ((i & 0x7fff) == 0x7fff || std::isinf(exact)) continue;
    // Between two neighbours: the nearer one, and the even one from the middle.
    Half next;
    next.bits = static_cast<uint16_t>(i + 1);
    const double above = value_of(next.bits, exponent_bits);
    if (!std::isfinite(above)) continue;
    const auto middle = static_cast<float>((exact + above) / 2);
    REQUIRE(Half(middle).bits == ((i & 1) == 0 ? half.bits : next.bits));
    REQUIRE(Half(std::nextafterf(middle, static_cast<float>(exact))).bits == half.bits);
    REQUIRE(Half(std::nextafterf(middle, static_cast<float>(above))).bits == next.bits);
  }
}

TEST_CASE("float16 holds its 65,536 values and rounds to nearest even", "[dtype]") {
  check_format<Float16>(5);
  CHECK(Float16(65519.0F).bits == 0x7bff);
  CHECK(Float16(65520.0F).bits == 0x7c00);
  CHECK(Float16(-1e30F).bits == 0xfc00);
}

TEST_CASE("bfloat16 holds its 65,536 values and rounds to nearest even", "[dtype]") {
  check_format<BFloat16>(8);
  CHECK(BFloat16(3.4e38F).bits == 0x7f80);
}

TEST_CASE("Sizes, names and promotion of dtypes", "[dtype]") {
  CHECK(size_of(DType::kBFloat16) == 2);
  CHECK(size_of(DType::kInt64) == 8);
  CHECK(name_of(DType::kFloat16) == "float16");
  CHECK(promote(DType::kUInt8, DType::kInt64) == DType::kInt64);
  CHECK(promote(DType::kInt64, DType::kFloat16) == DType::kFloat16);
  CHECK(promote(DType::kBFloat16, DType::kFloat16) == DType::kFloat32);
  CHECK(promote(DType::kFloat64, DType::kFloat32) == DType::kFloat64);
}

TEST_CASE("dispatch_float refuses integers by name", "[dtype]") {
  CHECK(dispatch_float(DType::kFloat64, []<class T>() { return sizeof(T); }) == 8);
  CHECK_THROWS_WITH(dispatch_float(DType::kUInt8, []<class T>() { return sizeof(T); }),
                    ContainsSubstring("uint8"));
}

}  // namespace
}  // namespace heddle
