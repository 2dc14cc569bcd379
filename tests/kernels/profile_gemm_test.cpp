// What the main loops ask of memory, as counted by cudasim: shared memory without bank conflicts,
// and global memory in whole sectors.
#include <cudasim/profile.h>

#include "heddle/core/cuda_check.h"
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/matmul.h"
#include "heddle/tests/kernels/product_oracle.h"

namespace heddle {
namespace {

using namespace testing;
using cudasim::AccessClass;
using cudasim::AccessCounts;
using cudasim::KernelProfile;

const char* main_kernel(DType dtype) {
  return dtype == DType::kFloat32 ? "gemm_simt_kernel" : "gemm_tensor_kernel";
}

/// float16 takes the same path as bfloat16.
const std::vector<DType> kDTypes{DType::kFloat32, DType::kBFloat16};

/// No bank conflict, and no sector that is not all asked for (rows past the last ask for the first
/// again, so there may be fewer).
void check_counts(const KernelProfile& kernel) {
  REQUIRE(kernel.launches >= 1);
  for (const AccessClass which : {AccessClass::kSharedLoad, AccessClass::kSharedStore}) {
    CAPTURE(cudasim::access_class_name(which));
    CHECK(kernel.of(which).requests > 0);
    CHECK(kernel.of(which).conflicts == 0);
  }
  for (const AccessClass which : {AccessClass::kGlobalLoad, AccessClass::kGlobalStore}) {
    CAPTURE(cudasim::access_class_name(which));
    const AccessCounts& counts = kernel.of(which);
    CHECK(counts.requests > 0);
    CHECK(counts.sectors * 32 <= counts.bytes);
  }
}

KernelProfile profile_matmul(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                             bool turn_a, bool turn_b) {
  Mirror a(dtype, {batch, m, k}), b(dtype, {batch, k, n}), c(dtype, {batch, m, n});
  const cudasim::Profile profile;
  cuda::matmul({dtype, batch, m, n, k, c.device_data(), a.device_data(), m * k, turn_a ? 1 : k,
                turn_a ? m : 1, b.device_data(), k * n, turn_b ? 1 : n, turn_b ? k : 1},
               test_stream());
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  return profile.kernel(main_kernel(dtype));
}

TEST_CASE("matmul on a device meets no bank conflict and reads whole sectors", "[profile]") {
  for (const DType dtype : kDTypes) {
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        if (turn_a && turn_b) continue;  // a is packed: the same loop as without
        CAPTURE(name_of(dtype), turn_a, turn_b);
        check_counts(profile_matmul(dtype, 1, 64, 64, 128, turn_a, turn_b));
        check_counts(profile_matmul(dtype, 32, 256, 256, 32, turn_a, turn_b));  // 128 x 128
        check_counts(profile_matmul(dtype, 128, 128, 64, 32, turn_a, turn_b));  // 128 x 64
      }
    }
  }
}

Conv2dGeometry images(DType dtype) {
  Conv2dGeometry g;
  g.dtype = dtype;
  g.batch = 4;
  g.in_h = g.in_w = g.out_h = g.out_w = 8;
  g.in_channels = 32;
  g.out_channels = 64;
  g.kernel_h = g.kernel_w = 3;
  g.pad_h = g.pad_w = 1;
  return g;
}

TEST_CASE("conv2d on a device meets no bank conflict and reads whole sectors", "[profile]") {
  for (const DType dtype : kDTypes) {
    CAPTURE(name_of(dtype));
    const Conv2dGeometry g = images(dtype);
    Mirror x(dtype, {4 * 64 * 32}), w(dtype, {64 * 9 * 32}), y(dtype, {4 * 64 * 64});
    Mirror dx(dtype, {4 * 64 * 32}), dw(dtype, {64 * 9 * 32});
    const cudasim::Profile profile;
    cuda::conv2d_forward({g, y.device_data(), x.device_data(), w.device_data(), nullptr},
                         test_stream());
    cuda::conv2d_backward_data({g, dx.device_data(), y.device_data(), w.device_data()},
                               test_stream());
    cuda::conv2d_backward_weight({g, dw.device_data(), nullptr, x.device_data(), y.device_data()},
                                 test_stream());
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
    check_counts(profile.kernel(main_kernel(dtype)));
  }
}

}  // namespace
}  // namespace heddle
