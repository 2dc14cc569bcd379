#include "heddle/kernels/random.h"

#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/permutation.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

constexpr int64_t kMaxDraws = int64_t{1} << 33;  // a stream has 2^34 words

Tensor random(const char* op, const Shape& shape, Rng rng, Distribution distribution, double shift,
              double scale, DType dtype, Device device) {
  HEDDLE_CHECK(is_floating(dtype), "{}: dtype is {}, expected a floating one", op, dtype);
  HEDDLE_CHECK(numel(shape) <= kMaxDraws, "{}: shape {} has more than 2^33 elements", op, shape);
  Tensor y = Tensor::empty(shape, dtype, MemoryFormat::kContiguous, device);
  HEDDLE_DISPATCH(y.device(), random, {y.view(), rng, distribution, shift, scale});
  return y;
}

}  // namespace

Tensor rand(const Shape& shape, Rng rng, double low, double high, DType dtype, Device device) {
  return random("rand", shape, rng, Distribution::kUniform, low, high - low, dtype, device);
}

Tensor randn(const Shape& shape, Rng rng, double mean, double stddev, DType dtype, Device device) {
  return random("randn", shape, rng, Distribution::kNormal, mean, stddev, dtype, device);
}

Tensor randperm(int64_t n, const Rng& rng, Device device) {
  HEDDLE_CHECK(n >= 0 && n <= UINT32_MAX, "randperm: n is {}, expected 0 to 2^32 - 1", n);
  Tensor order = Tensor::empty({n}, DType::kInt64, MemoryFormat::kContiguous, device);
  HEDDLE_DISPATCH(device, permutation, {order.data<int64_t>(), n, rng});
  return order;
}

}  // namespace heddle
