#include "heddle/kernels/device/gemm_plan.h"

#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using cuda::GemmPlan;
using cuda::GemmSizes;
using cuda::GemmTile;
using cuda::plan_gemm;

TEST_CASE("the plan of a product covers its depth with whole tiles", "[gemm_plan]") {
  for (const int64_t m : {1, 64, 65, 1000, 100000})
    for (const int64_t n : {1, 10, 64, 129, 4096})
      for (const int64_t k : {0, 1, 33, 511, 512, 1025, 65536, 3000000})
        for (const int64_t limit : {INT64_MAX, int64_t{124}, int64_t{1000}}) {
          const GemmPlan plan = plan_gemm({m, n, k, 3}, 32, limit);
          CAPTURE(m, n, k, limit, plan.parts, plan.depth_of_part);
          REQUIRE(plan.tiles_m * rows_of(plan.tile) >= m);
          REQUIRE(plan.tiles_n * cols_of(plan.tile) >= n);
          REQUIRE(plan.parts >= 1);
          REQUIRE(plan.depth_of_part % 32 == 0);
          REQUIRE(plan.depth_of_part <= limit);
          REQUIRE(plan.parts * plan.depth_of_part >= k);
          REQUIRE((plan.parts == 1 || (plan.parts - 1) * plan.depth_of_part < k));
          REQUIRE(plan.blocks == plan.tiles_m * plan.tiles_n * plan.parts * 3);
          REQUIRE((plan.pitch >= n && plan.pitch % 4 == 0));
        }
}

TEST_CASE("the tile of a product follows its sizes", "[gemm_plan]") {
  const auto tile = [](const GemmSizes& sizes) { return plan_gemm(sizes, 32, INT64_MAX).tile; };
  CHECK(tile({4096, 4096, 4096, 1}) == GemmTile::k128x128);
  CHECK(tile({65536, 64, 288, 1}) == GemmTile::k128x64);    // SimpleCnn's second convolution
  CHECK(tile({64, 128, 65536, 1}) == GemmTile::k64x64);     // its first linear layer
  CHECK(tile({64, 288, 65536, 1}) == GemmTile::k64x64);     // a weight gradient
  CHECK(tile({512, 4608, 1024, 1}) == GemmTile::k128x128);  // ResNet-18's last convolutions'
  CHECK(tile({65, 65, 32, 1}) == GemmTile::k64x64);
}

TEST_CASE("a product with few tiles and a long depth has many parts", "[gemm_plan]") {
  CHECK(plan_gemm({64, 128, 65536, 1}, 32, INT64_MAX).parts == 128);
  CHECK(plan_gemm({4096, 4096, 65536, 1}, 32, INT64_MAX).parts == 1);
  CHECK(plan_gemm({64, 128, 511, 1}, 32, INT64_MAX).parts == 1);
}

}  // namespace
}  // namespace heddle
