// Memory-bound kernels over 2^31 + 512 elements (CV-4). Memory is a sparse mapping, of which the
// last 512 elements are filled, and the last block alone is run.
#include <cudasim/execution.h>

#include "heddle/core/cuda_check.h"
#include "heddle/core/rng.h"
#include "heddle/kernels/binary.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/dropout.h"
#include "heddle/kernels/fill.h"
#include "heddle/kernels/optimizer.h"
#include "heddle/kernels/random.h"
#include "heddle/kernels/reduce.h"
#include "heddle/kernels/unary.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

constexpr int64_t kTail = 512;
constexpr int64_t kBig = int64_t{1} << 31;
constexpr int64_t kN = kBig + kTail;

/// `n` elements on the device, of which the last are given values.
template <class T>
class Sparse {
 public:
  explicit Sparse(int64_t n = kN) : n_(n) {
    HEDDLE_CUDA_CHECK(
        cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<size_t>(n) * sizeof(T)));
  }
  ~Sparse() { HEDDLE_CUDA_WARN(cudaFree(data_)); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  T* data() const { return data_; }
  View view(const Shape& shape) const { return view(shape, strides_for(shape)); }
  View view(const Shape& shape, const Strides& strides) const {
    return {data_, dtype_of<T>, shape, strides};
  }

  /// Values of 0 .. 15 for the last elements.
  std::vector<T> fill_tail(int64_t n = kTail) const {
    std::vector<T> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(T(static_cast<float>(i % 16)));
    HEDDLE_CUDA_CHECK(cudaMemcpy(data_ + n_ - n, values.data(), values.size() * sizeof(T),
                                 cudaMemcpyHostToDevice));
    return values;
  }
  std::vector<T> tail(int64_t n = kTail) const {
    std::vector<T> values(static_cast<size_t>(n));
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
    HEDDLE_CUDA_CHECK(cudaMemcpy(values.data(), data_ + n_ - n, values.size() * sizeof(T),
                                 cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  int64_t n_;
  T* data_ = nullptr;
};

/// Runs the block that takes element 2^31 where each takes `per_block`.
template <class Run>
void run_last_block(int64_t per_block, const Run& run) {
  const cudasim::BlockRangeScope last(kBig / per_block, 1);
  run(test_stream());
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
}

TEST_CASE("elementwise kernels beyond 2^31 elements", "[large][slow]") {
  const Sparse<float> x, y;
  const std::vector<float> values = x.fill_tail();
  run_last_block(4096, [&](StreamRef stream) {
    cuda::unary_forward({y.data(), x.data(), kN, DType::kFloat32, UnaryOp::kNeg}, stream);
  });
  const std::vector<float> negated = y.tail();
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(negated[i] == -values[i]);

  const Sparse<float> row(64);  // b of (rows, 64)
  const std::vector<float> in_row = row.fill_tail(64);
  const Shape shape{kN / 64, 64};
  run_last_block(2048, [&](StreamRef stream) {
    cuda::binary({y.view(shape), x.view(shape), row.view(shape, {0, 1}), BinaryOp::kAdd}, stream);
  });
  const std::vector<float> sums = y.tail();
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(sums[i] == values[i] + in_row[i % 64]);

  const Sparse<BFloat16> cast;
  run_last_block(4096, [&](StreamRef stream) {
    cuda::copy({cast.view({kN}), x.view({kN})}, stream);
  });
  const std::vector<BFloat16> rounded = cast.tail();
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(static_cast<float>(rounded[i]) == values[i]);

  const Sparse<uint8_t> bytes;
  run_last_block(16384, [&](StreamRef stream) { cuda::fill({bytes.view({kN}), 7.0}, stream); });
  CHECK(bytes.tail() == std::vector<uint8_t>(kTail, 7));
}

TEST_CASE("random numbers and dropout beyond 2^31 elements", "[large][slow]") {
  const Sparse<float> x, y;
  const Sparse<uint8_t> mask;
  const Rng rng(51, RngPurpose::kUser);
  const auto expected = [&](size_t i) {
    const int64_t place = kBig + static_cast<int64_t>(i);
    return uniform_from_bits(
        rng.block(static_cast<uint32_t>(place / 4))[static_cast<size_t>(place % 4)]);
  };
  run_last_block(1024, [&](StreamRef stream) {
    cuda::random({y.view({kN}), rng, Distribution::kUniform, 0.0, 1.0}, stream);
  });
  const std::vector<float> drawn = y.tail();
  for (size_t i = 0; i < drawn.size(); ++i) REQUIRE(drawn[i] == expected(i));

  x.fill_tail();
  run_last_block(1024, [&](StreamRef stream) {
    cuda::dropout_forward(
        {DType::kFloat32, 1, 1, kN, 0.5F, 2.0, rng, y.data(), mask.data(), x.data()}, stream);
  });
  const std::vector<uint8_t> kept = mask.tail();
  for (size_t i = 0; i < kept.size(); ++i) REQUIRE(kept[i] == (expected(i) < 0.5F ? 0 : 1));
}

TEST_CASE("reductions and optimizer steps beyond 2^31 elements", "[large][slow]") {
  constexpr int64_t kCols = 32;
  const Sparse<float> x, gradient;
  const Sparse<float> y(kN / kCols);
  const Sparse<int64_t> index(kN / kCols);
  const std::vector<float> values = x.fill_tail();
  const Shape shape{kN / kCols, kCols};
  const Shape kept{kN / kCols, 1};
  run_last_block(32 * kCols, [&](StreamRef stream) {
    cuda::reduce({y.view(kept), x.view(shape), ReduceOp::kSum}, stream);
  });
  run_last_block(32 * kCols, [&](StreamRef stream) {
    cuda::argmax({index.view(kept), x.view(shape)}, stream);
  });
  for (const float sum : y.tail(kTail / kCols)) CHECK(sum == 240.0F);  // twice 0 + ... + 15
  for (const int64_t place : index.tail(kTail / kCols)) CHECK(place == 15);

  gradient.fill_tail();
  const ParamSlot slot{.p = x.data(), .g = gradient.data(), .n = kN, .dtype = DType::kFloat32};
  run_last_block(4096, [&](StreamRef stream) {
    cuda::sgd_step({.slots = {&slot, 1}, .lr = 0.5}, stream);
  });
  const std::vector<float> moved = x.tail();
  for (size_t i = 0; i < moved.size(); ++i) REQUIRE(moved[i] == 0.5F * values[i]);
}

}  // namespace
}  // namespace heddle
