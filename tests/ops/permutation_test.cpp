// The ops whose CUDA side is Thrust's: randperm and count_equal.
#include <algorithm>
#include <numeric>

#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

TEST_CASE("randperm sorts by the words of its stream: the same on every device",
          "[device][randperm]") {
  const Rng rng(9, RngPurpose::kUser, 3, 4);
  for (const int64_t n : {0, 1, 2, 31, 32, 33, 257, 1023, 1025, 5000}) {
    CAPTURE(n);
    Rng words = rng;
    std::vector<uint64_t> keys;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t high = words.next();
      keys.push_back(high << 32 | words.next());
    }
    std::vector<int64_t> expected(keys.size());
    std::iota(expected.begin(), expected.end(), int64_t{0});
    std::stable_sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
      return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
    });
    const Tensor order = randperm(n, rng, test_device());
    CHECK(order.device() == test_device());
    CHECK(order.to_vector<int64_t>() == expected);
    CHECK(permutation(rng, n) == expected);
  }
  CHECK(count_findings() == 0);
  check_error([&] { randperm(-1, rng, test_device()); },
              "randperm: n is -1, expected 0 to 2^32 - 1");
}

TEST_CASE("count_equal counts", "[device][count_equal]") {
  for (const int64_t n : {0, 1, 31, 33, 1023, 1025, 70000}) {
    CAPTURE(n);
    std::vector<int64_t> a, b;
    int64_t expected = 0;
    for (int64_t i = 0; i < n; ++i) {
      a.push_back(i * i % 10);
      b.push_back(i % 7);
      expected += a.back() == b.back() ? 1 : 0;
    }
    const Tensor x = on_test_device(Tensor::from(a, {n}));
    const Tensor count = count_equal(x, on_test_device(Tensor::from(b, {n})));
    CHECK(count.device() == test_device());
    CHECK(count.shape() == Shape{});
    CHECK(count.to_vector<int64_t>() == std::vector<int64_t>{expected});
    CHECK(count_equal(x, x).to_vector<int64_t>() == std::vector<int64_t>{n});
  }
  CHECK(count_findings() == 0);
}

TEST_CASE("count_equal reads views by their strides, and refuses what does not go together",
          "[device][count_equal]") {
  const Tensor a = on_test_device(reshape(arange(12), {3, 4}));
  const Tensor b = on_test_device(reshape(arange(12), {4, 3}));
  CHECK(count_equal(a, transpose(b, 0, 1)).item() == 2.0);  // 0 and 11
  check_error([&] { count_equal(a, b); }, "count_equal: a is (3, 4)");
  check_error([&] { count_equal(a, to(a, DType::kFloat32)); },
              "count_equal: a is int64 and b float32");
}

}  // namespace
}  // namespace heddle
