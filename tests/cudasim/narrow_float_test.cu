// float16 and bfloat16: every value, every rounding, against core/dtype.h and exact integers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "heddle/core/dtype.h"
#include "heddle/tests/cudasim/support.h"

namespace heddle::test {
namespace {

struct HalfTraits {
  using Device = __half;
  using Core = Float16;
  static Device from_bits(uint32_t bits) {
    return __ushort_as_half(static_cast<unsigned short>(bits));
  }
  static float widen(Device value) { return __half2float(value); }
  static Device narrow(float value) { return __float2half_rn(value); }
  static constexpr uint32_t kInfinity = 0x7c00;
};

struct BfloatTraits {
  using Device = __nv_bfloat16;
  using Core = BFloat16;
  static Device from_bits(uint32_t bits) {
    return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
  }
  static float widen(Device value) { return __bfloat162float(value); }
  static Device narrow(float value) { return __float2bfloat16_rn(value); }
  static constexpr uint32_t kInfinity = 0x7f80;
};

bool is_nan(float value) { return value != value; }

template <class Traits>
void check_widening() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    typename Traits::Core core;
    core.bits = static_cast<uint16_t>(bits);
    const float expected = core;
    const float found = Traits::widen(Traits::from_bits(bits));
    CAPTURE(bits);
    if (is_nan(expected)) {
      REQUIRE(is_nan(found));
    } else {
      REQUIRE(std::bit_cast<uint32_t>(found) == std::bit_cast<uint32_t>(expected));
      REQUIRE(Traits::narrow(found).x == bits);
    }
  }
}

TEST_CASE("all 65536 values of float16 and bfloat16 become float32 and come back") {
  check_widening<HalfTraits>();
  check_widening<BfloatTraits>();
}

template <class Traits>
void check_narrowing(float value) {
  const typename Traits::Core core(value);
  const uint32_t found = Traits::narrow(value).x;
  CAPTURE(value, std::bit_cast<uint32_t>(value));
  if (is_nan(value)) {
    REQUIRE(found == 0x7fff);  // a device's only NaN
  } else {
    REQUIRE(found == core.bits);
  }
}

template <class Traits>
void check_all_narrowings() {
  // Each value, the middles between neighbours, and what lies just beside both.
  for (uint32_t bits = 0; bits < Traits::kInfinity; ++bits) {
    const float low = Traits::widen(Traits::from_bits(bits));
    const float high = Traits::widen(Traits::from_bits(bits + 1));
    const float middle = bits + 1 == Traits::kInfinity ? low : low + (high - low) / 2;
    for (const float value : {low, middle}) {
      for (const float beside :
           {std::nextafter(value, -INFINITY), value, std::nextafter(value, INFINITY)}) {
        check_narrowing<Traits>(beside);
        check_narrowing<Traits>(-beside);
      }
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i)
    check_narrowing<Traits>(std::bit_cast<float>(static_cast<uint32_t>(random())));
  check_narrowing<Traits>(INFINITY);
  check_narrowing<Traits>(-INFINITY);
}

TEST_CASE("narrowing rounds to nearest even") {
  check_all_narrowings<HalfTraits>();
  check_all_narrowings<BfloatTraits>();
}

__extension__ using Exact = __int128;

/// In units of 2^-48, the last digit of a product of two float16.
Exact exact_units(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  const auto integer = static_cast<Exact>(std::ldexp(mantissa, 24));
  return integer * (Exact{1} << (exponent - 24 + 48));
}

Exact distance(Exact a, Exact b) { return a > b ? a - b : b - a; }

TEST_CASE("__hfma rounds once") {
  std::mt19937 random(4);
  for (int i = 0; i < 300000; ++i) {
    std::array<__half, 3> h;
    for (__half& value : h) value = HalfTraits::from_bits(random() & 0xffffU);
    // Small exponents meet more often.
    if (i % 2 == 0) {
      for (__half& value : h) value.x = static_cast<uint16_t>((value.x & 0x83ffU) | 0x3800U);
    }
    const float a = h[0];
    const float b = h[1];
    const float c = h[2];
    if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) continue;
    const __half found = __hfma(h[0], h[1], h[2]);
    if (!std::isfinite(static_cast<float>(found))) {
      REQUIRE(std::fabs(static_cast<double>(a) * b + c) >= 65520.0);
      continue;
    }
    // The product has at most 22 digits, so double holds it.
    const auto product = static_cast<Exact>(std::ldexp(static_cast<double>(a) * b, 48));
    const Exact truth = product + exact_units(c);
    const Exact error = distance(exact_units(found), truth);
    for (const int step : {-1, 1}) {
      const auto neighbour_bits = static_cast<uint32_t>(found.x + step) & 0xffffU;
      const float neighbour = HalfTraits::from_bits(neighbour_bits);
      if (!std::isfinite(neighbour)) continue;
      const Exact other = distance(exact_units(neighbour), truth);
      CAPTURE(a, b, c, static_cast<float>(found), neighbour);
      REQUIRE(error <= other);
      if (error == other && error != 0) REQUIRE((found.x & 1U) == 0);
    }
  }
}

TEST_CASE("arithmetic is that of float32, rounded") {
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    const __half a = HalfTraits::from_bits(random() & 0xffffU);
    const __half b = HalfTraits::from_bits(random() & 0xffffU);
    const float x = a;
    const float y = b;
    if (is_nan(x) || is_nan(y)) continue;
    REQUIRE((a + b).x == HalfTraits::narrow(x + y).x);
    REQUIRE(__hsub(a, b).x == HalfTraits::narrow(x - y).x);
    REQUIRE(__hmul(a, b).x == HalfTraits::narrow(x * y).x);
    REQUIRE((a / b).x == HalfTraits::narrow(x / y).x);
    REQUIRE((a < b) == (x < y));
    REQUIRE(static_cast<float>(__hmax(a, b)) == std::fmax(x, y));
  }
  const __nv_bfloat162 pair = __floats2bfloat162_rn(1.0F, -2.0F);
  REQUIRE(__low2float(pair) == 1.0F);
  REQUIRE(__bfloat1622float2(__hfma2(pair, pair, pair)).y == 2.0F);
  REQUIRE(__half22float2(__float22half2_rn(make_float2(0.5F, 3.0F))).y == 3.0F);
  REQUIRE(__hisnan(__half(NAN)));
  REQUIRE(__hneg(__half(1.5F)).x == __half(-1.5F).x);
}

__global__ void narrow_kernel(const float* in, __half* halves, __nv_bfloat16* bfloats) {
  halves[threadIdx.x] = __float2half_rn(in[threadIdx.x]);
  bfloats[threadIdx.x] = __float2bfloat16_rn(in[threadIdx.x]);
}

TEST_CASE("kernels narrow as the host does") {
  std::vector<float> in(128);
  std::mt19937 random(6);
  for (float& value : in) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  DeviceArray<float> source(in);
  DeviceArray<__half> halves(in.size());
  DeviceArray<__nv_bfloat16> bfloats(in.size());
  run(narrow_kernel, {.block = 128}, source.data(), halves.data(), bfloats.data());
  const auto found_halves = halves.values();
  const auto found_bfloats = bfloats.values();
  for (size_t i = 0; i < in.size(); ++i) {
    REQUIRE(found_halves[i].x == HalfTraits::narrow(in[i]).x);
    REQUIRE(found_bfloats[i].x == BfloatTraits::narrow(in[i]).x);
  }
}

}  // namespace
}  // namespace heddle::test
