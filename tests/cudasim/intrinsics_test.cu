// Bits, integers and floats of CUDA's math API, on values whose answer is known.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "heddle/tests/cudasim/support.h"

namespace heddle::test {
namespace {

TEST_CASE("intrinsics on bits") {
  REQUIRE(__popc(0xf0f0U) == 8);
  REQUIRE(__popcll(0xffffffff00000001ULL) == 33);
  REQUIRE(__clz(1) == 31);
  REQUIRE(__clz(0) == 32);
  REQUIRE(__clzll(1) == 63);
  REQUIRE(__ffs(0) == 0);
  REQUIRE(__ffs(8) == 4);
  REQUIRE(__ffsll(1LL << 40) == 41);
  REQUIRE(__brev(1U) == 0x80000000U);
  REQUIRE(__brev(0x12345678U) == 0x1e6a2c48U);
  REQUIRE(__byte_perm(0x33221100U, 0x77665544U, 0x7250U) == 0x77225500U);
  REQUIRE(__byte_perm(0x80ff007fU, 0U, 0xba98U) == 0xffff0000U);
  REQUIRE(__funnelshift_l(0x80000001U, 0x7U, 1) == 0xfU);
  REQUIRE(__funnelshift_r(0x80000001U, 0x7U, 1) == 0xc0000000U);
  REQUIRE(__float_as_uint(1.0F) == 0x3f800000U);
  REQUIRE(__int_as_float(0x40000000) == 2.0F);
  REQUIRE(__longlong_as_double(__double_as_longlong(-0.1)) == -0.1);
}

TEST_CASE("intrinsics on integers") {
  REQUIRE(__umulhi(0xffffffffU, 0xffffffffU) == 0xfffffffeU);
  REQUIRE(__mulhi(-1, 2) == -1);
  REQUIRE(__umul64hi(~0ULL, ~0ULL) == ~0ULL - 1);
  REQUIRE(__mul24(0x1000001, 3) == 3);
  REQUIRE(min(3, -4) == -4);
  REQUIRE(max(3U, 4U) == 4U);
  REQUIRE(min(int64_t{1} << 40, int64_t{1} << 41) == int64_t{1} << 40);
}

TEST_CASE("min and max of floats pass over NaN") {
  REQUIRE(max(NAN, 1.0F) == 1.0F);
  REQUIRE(min(2.0F, NAN) == 2.0F);
  REQUIRE(max(-1.0F, 1.0F) == 1.0F);
}

TEST_CASE("floats become integers with an end at the ends") {
  REQUIRE(__float2int_rn(2.5F) == 2);
  REQUIRE(__float2int_rn(3.5F) == 4);
  REQUIRE(__float2int_rz(-2.9F) == -2);
  REQUIRE(__float2int_rd(-2.1F) == -3);
  REQUIRE(__float2int_ru(2.1F) == 3);
  REQUIRE(__float2int_rn(NAN) == 0);
  REQUIRE(__float2int_rz(3e9F) == std::numeric_limits<int>::max());
  REQUIRE(__float2int_rz(-3e9F) == std::numeric_limits<int>::min());
  REQUIRE(__float2uint_rz(-5.0F) == 0U);
  REQUIRE(__float2uint_rz(5e9F) == std::numeric_limits<unsigned>::max());
  REQUIRE(__float2ll_rz(1e30F) == std::numeric_limits<long long>::max());
  REQUIRE(__float2ull_rz(4294967296.0F) == 4294967296ULL);
}

TEST_CASE("float arithmetic rounds to nearest") {
  REQUIRE(__fmaf_rn(1.0F + 0x1p-12F, 1.0F + 0x1p-12F, -1.0F) == 0x1p-11F + 0x1p-24F);
  REQUIRE(__frcp_rn(3.0F) == 1.0F / 3.0F);
  REQUIRE(__fsqrt_rn(2.0F) == std::sqrt(2.0F));
  REQUIRE(rsqrtf(4.0F) == 0.5F);
  REQUIRE(rsqrtf(0.0F) == INFINITY);
  REQUIRE(__saturatef(1.5F) == 1.0F);
  REQUIRE(__saturatef(NAN) == 0.0F);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(1e-3F, 1e3F);
  for (int i = 0; i < 1000; ++i) {
    const float x = uniform(random);
    REQUIRE(std::fabs(rsqrtf(x) * std::sqrt(x) - 1.0F) < 2e-7F);
    REQUIRE(__expf(x / 100.0F) == std::exp(x / 100.0F));
  }
}

__global__ void subnormal_kernel(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] * 0.5F;
}

TEST_CASE("kernels keep subnormals, whatever the host thread has set") {
  DeviceArray<float> in(std::vector<float>{0x1p-140F, 0x1p-126F});
  DeviceArray<float> out(2);
#if defined(__SSE2__)
  const unsigned outer = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(outer | 0x8040U);  // flush results and operands
#endif
  run(subnormal_kernel, {.block = 2}, in.data(), out.data());
#if defined(__SSE2__)
  REQUIRE((__builtin_ia32_stmxcsr() & 0x8040U) == 0x8040U);
  __builtin_ia32_ldmxcsr(outer);
#endif
  REQUIRE(out.values() == std::vector<float>{0x1p-141F, 0x1p-127F});
}

TEST_CASE("vector types have CUDA's sizes and alignments") {
  REQUIRE((sizeof(float2) == 8 && alignof(float2) == 8));
  REQUIRE((sizeof(float3) == 12 && alignof(float3) == 4));
  REQUIRE((sizeof(float4) == 16 && alignof(float4) == 16));
  REQUIRE((sizeof(uchar4) == 4 && alignof(uchar4) == 4));
  REQUIRE((sizeof(short2) == 4 && alignof(short2) == 4));
  REQUIRE((sizeof(int4) == 16 && alignof(int4) == 16));
  REQUIRE((sizeof(longlong2) == 16 && alignof(longlong2) == 16));
  REQUIRE((sizeof(double4) == 32 && alignof(double4) == 16));
  REQUIRE(make_uint3(1, 2, 3).z == 3);
  const dim3 size = 7;
  REQUIRE((size.x == 7 && size.y == 1 && size.z == 1));
}

}  // namespace
}  // namespace heddle::test
