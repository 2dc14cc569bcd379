// Products of more than 2^31 elements and 65,535 tiles. Memory is a sparse mapping, of which the
// last block's part is filled, and that block alone is run.
#include <cudasim/execution.h>

#include "heddle/core/cuda_check.h"
#include "heddle/core/rng.h"
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/linear.h"
#include "heddle/tests/kernels/product_oracle.h"

namespace heddle {
namespace {

using namespace testing;

/// Float32 on the device, `n` elements, of which some are given values.
class Sparse {
 public:
  explicit Sparse(int64_t n) {
    HEDDLE_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<size_t>(n) * 4));
  }
  ~Sparse() { HEDDLE_CUDA_WARN(cudaFree(data_)); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  float* data() const { return data_; }
  std::vector<float> fill(int64_t first, int64_t n, uint64_t seed) const {
    Rng rng(seed, RngPurpose::kUser);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = rng.next_uniform() - 0.5F;
    HEDDLE_CUDA_CHECK(cudaMemcpy(data_ + first, values.data(), values.size() * sizeof(float),
                                 cudaMemcpyHostToDevice));
    return values;
  }
  std::vector<float> values(int64_t first, int64_t n) const {
    std::vector<float> values(static_cast<size_t>(n));
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
    HEDDLE_CUDA_CHECK(cudaMemcpy(values.data(), data_ + first, values.size() * sizeof(float),
                                 cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  float* data_ = nullptr;
};

TEST_CASE("linear on a device beyond 2^31 elements", "[linear]") {
  constexpr int64_t kIn = 64, kOut = 8, kTail = 5;
  constexpr int64_t kRows = (int64_t{1} << 25) + kTail;
  const Sparse x(kRows * kIn), w(kOut * kIn), y(kRows * kOut);
  const std::vector<float> x_tail = x.fill((kRows - kTail) * kIn, kTail * kIn, 1);
  const std::vector<float> weights = w.fill(0, kOut * kIn, 2);
  x.fill(0, kIn, 3);  // stands in for rows past the last
  {
    const cudasim::BlockRangeScope last(kRows / 128, 1);  // tiles of 128 rows
    cuda::linear_forward(
        {DType::kFloat32, kRows, kIn, kOut, y.data(), x.data(), w.data(), nullptr, false},
        test_stream());
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  }
  const std::vector<float> found = y.values((kRows - kTail) * kOut, kTail * kOut);
  for (size_t i = 0; i < kTail; ++i)
    for (size_t j = 0; j < kOut; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kIn; ++k)
        sum += static_cast<double>(x_tail[i * kIn + k]) * static_cast<double>(weights[j * kIn + k]);
      CHECK(std::abs(static_cast<double>(found[i * kOut + j]) - sum) < 1e-5);
    }
}

TEST_CASE("conv2d on a device beyond 2^31 elements", "[conv2d]") {
  Conv2dGeometry g;
  g.batch = (int64_t{1} << 15) + 1;
  g.in_h = g.in_w = g.out_h = g.out_w = 32;
  g.in_channels = 64;
  g.out_channels = 4;
  g.kernel_h = g.kernel_w = 3;
  g.pad_h = g.pad_w = 1;
  const int64_t pixels = g.batch * 1024;
  const Sparse x(pixels * 64), w(4 * 9 * 64), y(pixels * 4);
  const std::vector<float> image = x.fill((pixels - 1024) * 64, 1024 * 64, 3);
  const std::vector<float> weights = w.fill(0, 4 * 9 * 64, 4);
  {
    const cudasim::BlockRangeScope last(pixels / 128 - 1, 1);  // the last four rows
    cuda::conv2d_forward({g, y.data(), x.data(), w.data(), nullptr}, test_stream());
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  }
  const std::vector<float> found = y.values((pixels - 128) * 4, 128 * 4);
  for (int64_t p = 28; p < 32; ++p)
    for (int64_t q = 0; q < 32; ++q) {
      double sum = 0;  // of output channel 1
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 3; ++j)
          for (int64_t c = 0; c < 64; ++c) {
            const int64_t row = p + i - 1, col = q + j - 1;
            if (row > 31 || col < 0 || col > 31) continue;
            sum += static_cast<double>(image[static_cast<size_t>((row * 32 + col) * 64 + c)]) *
                   static_cast<double>(weights[static_cast<size_t>(((3 + i) * 3 + j) * 64 + c)]);
          }
      const size_t place = static_cast<size_t>(((p - 28) * 32 + q) * 4 + 1);
      CHECK(std::abs(static_cast<double>(found[place]) - sum) < 1e-4);
    }
}

}  // namespace
}  // namespace heddle
