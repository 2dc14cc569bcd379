#include "heddle/kernels/matmul.h"

#include "heddle/tests/kernels/product_oracle.h"

namespace heddle {
namespace {

using namespace testing;

struct Sizes {
  int64_t batch, m, n, k;
};

/// How an operand lies: rows or columns side by side, elements left out in front, at the end of
/// each line, and between neighbours.
struct Lie {
  bool turned = false;
  int64_t offset = 0, gap = 0, step = 1;
  bool one = false;  // one matrix for the whole batch
};

struct Operand {
  int64_t batch_stride, row, col;
  Mirror memory;

  Operand(DType dtype, const Lie& lie, int64_t batch, int64_t rows, int64_t cols, uint64_t seed)
      : batch_stride(0),
        row(lie.turned ? lie.step : cols * lie.step + lie.gap),
        col(lie.turned ? rows * lie.step + lie.gap : lie.step),
        memory(dtype, {batch * (lie.turned ? cols * col : rows * row)}, lie.offset) {
    if (!lie.one) batch_stride = lie.turned ? cols * col : rows * row;
    memory.fill_random(seed);
  }
  std::vector<double> values() const { return to_doubles(memory, memory.n()); }
};

std::vector<double> oracle(const Sizes& s, const Operand& a, const Operand& b) {
  const std::vector<double> left = a.values();
  const std::vector<double> right = b.values();
  std::vector<double> c;
  for (int64_t batch = 0; batch < s.batch; ++batch)
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += left[static_cast<size_t>(batch * a.batch_stride + i * a.row + k * a.col)] *
                 right[static_cast<size_t>(batch * b.batch_stride + k * b.row + j * b.col)];
        c.push_back(sum);
      }
  return c;
}

void check_matmul(DType dtype, const Sizes& s, const Lie& lie_a = {}, const Lie& lie_b = {},
                  int64_t offset_c = 0) {
  CAPTURE(name_of(dtype), s.batch, s.m, s.n, s.k, lie_a.turned, lie_b.turned, lie_a.offset,
          lie_b.offset, offset_c);
  const Operand a(dtype, lie_a, s.batch, s.m, s.k, 1);
  const Operand b(dtype, lie_b, s.batch, s.k, s.n, 2);
  Mirror c(dtype, {s.batch, s.m, s.n}, offset_c);
  fill_nan(c);
  cuda::matmul({dtype, s.batch, s.m, s.n, s.k, c.device_data(), a.memory.device_data(),
                a.batch_stride, a.row, a.col, b.memory.device_data(), b.batch_stride, b.row, b.col},
               test_stream());
  expect(c, oracle(s, a, b));
  CHECK_SAME(c, product_tolerance(dtype, s.k));
}

TEST_CASE("matmul on a device: sizes around tiles", "[matmul]") {
  for (const DType dtype : device_floats()) {
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{1, 64, 64, 32}, Sizes{1, 65, 63, 40},
                           Sizes{1, 63, 129, 33}, Sizes{1, 1, 10, 785}, Sizes{3, 17, 20, 8}})
      check_matmul(dtype, s);
  }
}

TEST_CASE("matmul on a device: every way that operands may lie", "[matmul]") {
  for (const DType dtype : device_floats()) {
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        check_matmul(dtype, {2, 72, 40, 56}, {.turned = turn_a}, {.turned = turn_b});
        check_matmul(dtype, {1, 37, 45, 51}, {.turned = turn_a}, {.turned = turn_b});
        check_matmul(dtype, {2, 24, 32, 40}, {.turned = turn_a, .offset = 1, .gap = 3},
                     {.turned = turn_b, .offset = 3, .gap = 1}, 1);
      }
    }
    check_matmul(dtype, {2, 24, 32, 40}, {.gap = 8}, {.turned = true, .gap = 16});
    check_matmul(dtype, {2, 20, 30, 10}, {.step = 2}, {.step = 3});
    check_matmul(dtype, {3, 20, 32, 16}, {.one = true}, {});
    check_matmul(dtype, {3, 20, 33, 15}, {}, {.one = true});
  }
}

TEST_CASE("matmul on a device: the large tiles", "[matmul]") {
  for (const DType dtype : device_floats()) {
    check_matmul(dtype, {32, 130, 136, 40});
    check_matmul(dtype, {64, 130, 40, 24});
  }
}

TEST_CASE("matmul on a device: a depth in parts", "[matmul]") {
  for (const DType dtype : device_floats()) {
    check_matmul(dtype, {1, 10, 20, 3000});
    check_matmul(dtype, {2, 9, 7, 1030}, {.turned = true}, {});
  }
}

TEST_CASE("matmul on a device: nothing to add, nothing to compute", "[matmul]") {
  for (const DType dtype : device_floats()) {
    check_matmul(dtype, {2, 5, 6, 0});
    check_matmul(dtype, {1, 0, 6, 4});
    check_matmul(dtype, {1, 5, 0, 4});
    check_matmul(dtype, {0, 5, 6, 4});
  }
}

TEST_CASE("matmul on a device refuses float64", "[matmul]") {
  CHECK_THROWS_WITH(
      cuda::matmul({DType::kFloat64, 1, 1, 1, 1, nullptr, nullptr, 1, 1, 1, nullptr, 1, 1, 1},
                   test_stream()),
      ContainsSubstring("matmul: float64 is computed on the CPU"));
}

}  // namespace
}  // namespace heddle
