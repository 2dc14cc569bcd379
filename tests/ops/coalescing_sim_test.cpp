// What memory-bound kernels ask of memory at aligned shapes, counted by cudasim: each sector of 32
// bytes moves about once. Counts, not times.
#ifdef CUDASIM_WITH_CHECKS  // nothing is counted without
#include <cudasim/profile.h>

#include <functional>

#include "heddle/core/rng.h"
#include "heddle/core/stream.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle::testing {
namespace {

constexpr double kMostExcess = 1.05;  // sectors asked for, against the least possible

Tensor random_tensor(const Shape& shape, DType dtype) {
  const Tensor x = to(randn(shape, Rng(3, RngPurpose::kUser)), dtype);
  return on_test_device(shape.size() == 4 ? contiguous(x, MemoryFormat::kChannelsLast) : x);
}

/// Runs an op and its backward, and looks at the kernels that are named.
void check_sectors(const std::vector<std::string>& kernels, const Shape& shape, DType dtype,
                   const std::function<Tensor(const Tensor&)>& op) {
  Tensor x = random_tensor(shape, dtype);
  x.set_requires_grad();
  const cudasim::Profile profile;
  const Tensor y = op(x);
  y.backward(random_tensor(y.shape(), y.dtype()));
  current_stream(test_device()).synchronize();
  for (const std::string& name : kernels) {
    INFO(name << ", " << to_string(shape) << ", " << name_of(dtype));
    const cudasim::KernelProfile kernel = profile.kernel(name);
    REQUIRE(kernel.launches == 1);
    CHECK(kernel.read_sectors > 0);
    CHECK(kernel.written_sectors > 0);
    const cudasim::AccessCounts& loads = kernel.of(cudasim::AccessClass::kGlobalLoad);
    const int64_t asked = loads.sectors + kernel.of(cudasim::AccessClass::kGlobalStore).sectors;
    const int64_t least = kernel.read_sectors + kernel.written_sectors;
    CAPTURE(kernel.load_excess(), kernel.store_excess());
    CHECK(static_cast<double>(asked) <= kMostExcess * static_cast<double>(least));
    INFO("loads of 16 bytes at a time");
    CHECK(static_cast<double>(loads.bytes) > 8.0 * static_cast<double>(loads.lanes));
  }
}

const std::vector<DType>& device_dtypes() {
  static const std::vector<DType> dtypes{DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  return dtypes;
}

}  // namespace

TEST_CASE("log_softmax moves each sector once", "[device][log_softmax]") {
  for (const DType dtype : device_dtypes())
    for (const int64_t cols : {256, 1000, 1024})
      check_sectors({"log_softmax_forward", "log_softmax_backward"}, {24, cols}, dtype,
                    [](const Tensor& x) { return log_softmax(x); });
}

TEST_CASE("cross_entropy moves each sector once", "[device][cross_entropy]") {
  const Tensor labels = on_test_device(zeros({24}, DType::kInt64));
  const auto op = [&](const Tensor& x) { return cross_entropy(x, labels); };
  for (const DType dtype : device_dtypes()) {
    check_sectors({"cross_entropy_forward_group", "cross_entropy_backward"}, {24, 1024}, dtype, op);
    for (const int64_t cols : {256, 2048, 4096})
      check_sectors({"cross_entropy_backward"}, {24, cols}, dtype, op);
  }
}

TEST_CASE("pooling moves each sector once where windows do not overlap", "[device][pool2d]") {
  for (const DType dtype : device_dtypes()) {
    check_sectors({"max_pool2d_forward", "pool2d_backward"}, {2, 64, 16, 16}, dtype,
                  [](const Tensor& x) { return max_pool2d(x, {}); });
    check_sectors({"avg_pool2d_forward", "pool2d_backward"}, {2, 64, 16, 16}, dtype,
                  [](const Tensor& x) { return avg_pool2d(x, {}); });
    check_sectors({"global_avg_pool_forward", "global_avg_pool_backward"}, {2, 512, 8, 8}, dtype,
                  [](const Tensor& x) { return global_avg_pool2d(x); });
  }
}

TEST_CASE("batch_norm moves each sector once a pass", "[device][batch_norm]") {
  const Tensor weight = on_test_device(ones({64})), bias = on_test_device(zeros({64}));
  Tensor none_mean, none_var;
  for (const DType dtype : device_dtypes())
    check_sectors({"batch_norm_forward_block_per_columns", "batch_norm_apply",
                   "batch_norm_backward_sums", "batch_norm_backward_data"},
                  {4, 64, 32, 16}, dtype, [&](const Tensor& x) {
                    return batch_norm(x, weight, bias, none_mean, none_var, {.fuse_relu = true});
                  });
}

}  // namespace heddle::testing

#endif  // CUDASIM_WITH_CHECKS
