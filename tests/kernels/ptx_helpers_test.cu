// The helpers that stand for single PTX instructions: which lane holds which element, by the
// formulas of the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type",
// "ldmatrix"), written down here once more and not shared with the helpers.
#include <vector>

#include "heddle/core/cuda_check.h"
#include "heddle/kernels/device/cp_async.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/ldmatrix.cuh"
#include "heddle/kernels/device/mma.cuh"
#include "heddle/kernels/device/shared.cuh"
#include "heddle/tests/kernels/product_oracle.h"

namespace heddle {
namespace {

using namespace testing;

template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& values) : n_(values.size()) {
    HEDDLE_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), n_ * sizeof(T)));
    HEDDLE_CUDA_CHECK(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceCopy() { HEDDLE_CUDA_WARN(cudaFree(data_)); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> values(n_);
    HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
    HEDDLE_CUDA_CHECK(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  size_t n_;
  T* data_ = nullptr;
};

/// Element i of the operands that lane `lane` holds.
struct Fragment {
  int group, thread;  // groupID and threadID_in_group

  __device__ explicit Fragment(int lane) : group(lane / 4), thread(lane % 4) {}
  __device__ int a_row(int i) const { return i < 2 || (i >= 4 && i < 6) ? group : group + 8; }
  __device__ int a_col(int i) const { return thread * 2 + (i & 1) + (i >= 4 ? 8 : 0); }
  __device__ int b_row(int i) const { return thread * 2 + (i & 1) + (i >= 2 ? 8 : 0); }
  __device__ int b_col(int) const { return group; }
  __device__ int c_row(int i) const { return i < 2 ? group : group + 8; }
  __device__ int c_col(int i) const { return thread * 2 + (i & 1); }
};

__device__ uint32_t pair(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}

/// d (16, 8) = c + a (16, 16) b (16, 8), row-major.
template <class T>
__global__ void mma_layout_kernel(float* d, const float* c, const T* a, const T* b) {
  const Fragment own(static_cast<int>(threadIdx.x));
  uint32_t left[4], right[2];
  float sums[4];
  for (int i = 0; i < 4; ++i)
    left[i] = pair(a[own.a_row(2 * i) * 16 + own.a_col(2 * i)].bits,
                   a[own.a_row(2 * i + 1) * 16 + own.a_col(2 * i + 1)].bits);
  for (int i = 0; i < 2; ++i)
    right[i] = pair(b[own.b_row(2 * i) * 8 + own.b_col(2 * i)].bits,
                    b[own.b_row(2 * i + 1) * 8 + own.b_col(2 * i + 1)].bits);
  for (int i = 0; i < 4; ++i) sums[i] = c[own.c_row(i) * 8 + own.c_col(i)];
  mma_m16n8k16<T>(sums, left, right);
  for (int i = 0; i < 4; ++i) d[own.c_row(i) * 8 + own.c_col(i)] = sums[i];
}

template <class T>
void check_mma(DType dtype) {
  Mirror a(dtype, {16, 16}), b(dtype, {16, 8});
  Mirror c(DType::kFloat32, {16, 8}), d(DType::kFloat32, {16, 8});
  // Small whole numbers, so that every order of adding gives the same sum.
  a.fill([](int64_t i) { return static_cast<double>(i * 7 % 13 - 6); });
  b.fill([](int64_t i) { return static_cast<double>(i * 5 % 11 - 5); });
  c.fill([](int64_t i) { return static_cast<double>(i % 17); });
  launch("mma_layout_kernel", mma_layout_kernel<T>, {.grid = {1}, .block = {32}}, test_stream(),
         d.device_as<float>(), c.device_as<float>(), a.device_as<T>(), b.device_as<T>());
  const std::vector<double> left = to_doubles(a, 256);
  const std::vector<double> right = to_doubles(b, 128);
  std::vector<double> sums = to_doubles(c, 128);
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 8; ++j)
      for (size_t k = 0; k < 16; ++k) sums[i * 8 + j] += left[i * 16 + k] * right[k * 8 + j];
  expect(d, sums);
  CHECK_SAME_BITS(d);
}

TEST_CASE("mma multiplies fragments as the manual lays them out", "[ptx]") {
  check_mma<Float16>(DType::kFloat16);
  check_mma<BFloat16>(DType::kBFloat16);
}

/// registers (32, 4): lane l gives the address of row order[l] of 32 rows, 8 elements each.
__global__ void ldmatrix_layout_kernel(uint32_t* registers, const uint16_t* rows, const int* order,
                                       bool transposed) {
  HEDDLE_SHARED(uint16_t, shared, [32][8]);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) shared[lane][i] = rows[lane * 8 + i];
  __syncthreads();
  uint32_t own[4];
  if (transposed) {
    ldmatrix_x4_transposed(own, shared[order[lane]]);
  } else {
    ldmatrix_x4(own, shared[order[lane]]);
  }
  for (int i = 0; i < 4; ++i) registers[lane * 4 + i] = own[i];
}

TEST_CASE("ldmatrix gives each lane the elements that the manual says", "[ptx]") {
  const auto order = [](int row) { return (row * 11 + 5) % 32; };
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    std::vector<uint16_t> rows;
    std::vector<int> orders;
    for (int i = 0; i < 256; ++i) rows.push_back(static_cast<uint16_t>(1000 + i));
    for (int i = 0; i < 32; ++i) orders.push_back(order(i));
    DeviceCopy<uint16_t> rows_there(rows);
    DeviceCopy<int> orders_there(orders);
    DeviceCopy<uint32_t> registers(std::vector<uint32_t>(128));
    launch("ldmatrix_layout_kernel", ldmatrix_layout_kernel, {.grid = {1}, .block = {32}},
           test_stream(), registers.data(), rows_there.data(), orders_there.data(), transposed);
    const std::vector<uint32_t> found = registers.values();
    for (int lane = 0; lane < 32; ++lane)
      for (int matrix = 0; matrix < 4; ++matrix)
        for (int half = 0; half < 2; ++half) {
          const int along = lane % 4 * 2 + half;
          const int row = transposed ? along : lane / 4;
          const int col = transposed ? lane / 4 : along;
          const uint32_t word = found[static_cast<size_t>(lane * 4 + matrix)];
          CHECK((word >> (16 * half) & 0xffffU) ==
                static_cast<uint32_t>(1000 + order(matrix * 8 + row) * 8 + col));
        }
  }
}

/// y (32, 3, 4): what a lane sees of its first copy after waiting for all but one group, of its
/// second after waiting for all, and of one that is not valid.
__global__ void cp_async_kernel(uint32_t* y, const uint32_t* x) {
  HEDDLE_SHARED(uint32_t, shared, [32][3][4]);
  const int lane = static_cast<int>(threadIdx.x);
  cp_async_16(shared[lane][0], x + lane * 8, true);
  cp_async_commit();
  cp_async_16(shared[lane][1], x + lane * 8 + 4, true);
  cp_async_16(shared[lane][2], x + lane * 8 + 4, false);
  cp_async_commit();
  cp_async_wait<1>();
  for (int i = 0; i < 4; ++i) y[lane * 12 + i] = shared[lane][0][i];
  cp_async_wait<0>();
  for (int i = 4; i < 12; ++i) y[lane * 12 + i] = shared[lane][i / 4][i % 4];
}

TEST_CASE("cp.async lands group by group, with zeros for what is not valid", "[ptx]") {
  std::vector<uint32_t> x;
  for (uint32_t i = 0; i < 256; ++i) x.push_back(i * 2654435761U + 1);
  DeviceCopy<uint32_t> x_there(x);
  DeviceCopy<uint32_t> y(std::vector<uint32_t>(384));
  launch("cp_async_kernel", cp_async_kernel, {.grid = {1}, .block = {32}}, test_stream(), y.data(),
         x_there.data());
  const std::vector<uint32_t> found = y.values();
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t i = 0; i < 12; ++i) CHECK(found[lane * 12 + i] == (i < 8 ? x[lane * 8 + i] : 0U));
}

}  // namespace
}  // namespace heddle
