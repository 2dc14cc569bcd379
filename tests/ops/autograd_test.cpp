#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

/// Gradients through several ops: mistakes that other frameworks are known to have made.
namespace heddle {
namespace {

using namespace testing;

Tensor leaf(const std::vector<float>& values, const Shape& shape) {
  Tensor x = on_test_device(Tensor::from<float>(values, shape));
  x.set_requires_grad();
  return x;
}

Tensor counted(const Shape& shape) {
  return reshape(arange(numel(shape), DType::kFloat32, test_device()), shape);
}

TEST_CASE("AG-1: a write to what a product saved is an error, to the product it is not",
          "[device][mul][add_]") {
  const std::string stale = "is needed for a gradient, but it was written in place";
  Tensor a = leaf({1, 2, 3}, {3});
  Tensor x = mul(a, 1.0);
  Tensor y = mul(x, x);
  add_(x, 1.0);
  check_error([&] { sum(y).backward(); }, stale);

  x = mul(a, 1.0);
  y = mul(x, x);
  {
    const NoGradGuard no_grad;
    Tensor view = reshape(x, {3, 1});
    add_(view, 1.0);
  }
  check_error([&] { sum(y).backward(); }, stale);

  x = mul(a, 1.0);
  y = mul(x, x);
  Tensor view = reshape(x, {3, 1});
  check_error([&] { add_(view, 1.0); }, "add_: a tensor of shape (3, 1) is a view");

  x = mul(a, 1.0);
  y = mul(x, x);
  {
    const NoGradGuard no_grad;
    mul_(x, 2.0);
  }
  check_error([&] { sum(y).backward(); }, stale);

  x = mul(a, 1.0);
  y = mul(x, x);
  add_(y, 1.0);
  sum(y).backward();
  CHECK(a.grad().to_vector<float>() == std::vector<float>{2, 4, 6});
}

TEST_CASE("AG-1: every op that saves something notices", "[device][copy_][fill_]") {
  const auto check_stale = [](auto&& op, bool writes_result) {
    Tensor a = leaf({1, 2, 3}, {3});
    Tensor x = mul(a, 1.0);
    Tensor y = op(x);
    {
      const NoGradGuard no_grad;
      fill_(writes_result ? y : x, 0.5);
    }
    check_error([&] { sum(y).backward(); }, "written in place");
  };
  check_stale([](const Tensor& x) { return exp(x); }, true);
  check_stale([](const Tensor& x) { return relu(x); }, true);
  check_stale([](const Tensor& x) { return tanh(x); }, true);
  check_stale([](const Tensor& x) { return log(x); }, false);
  check_stale([](const Tensor& x) { return gelu(x); }, false);
  check_stale([](const Tensor& x) { return max(x); }, false);
  check_stale([](const Tensor& x) { return div(x, x); }, false);
}

TEST_CASE("AG-3: a node that is used twice passes on both gradients", "[device][add][mul]") {
  Tensor x = leaf({2}, {});
  const Tensor y = mul(x, 3.0);
  add(mul(y, 2.0), mul(y, 5.0)).backward();
  CHECK(x.grad().item() == 21.0);
  Tensor z = leaf({2}, {});
  add(mul(z, z), z).backward();
  CHECK(z.grad().item() == 5.0);
}

TEST_CASE("AG-4: gradients are summed over the axes that were broadcast",
          "[device][mul][add][sum]") {
  Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor w = leaf({1, 1, 1}, {1, 3});
  sum(mul(x, w)).backward();
  CHECK(w.grad().shape() == Shape{1, 3});
  CHECK(w.grad().to_vector<float>() == std::vector<float>{5, 7, 9});
  Tensor s = leaf({1}, {1});
  sum(mul(x, s)).backward();
  CHECK(s.grad().shape() == Shape{1});
  CHECK(s.grad().to_vector<float>() == std::vector<float>{21});
  Tensor b = leaf({0, 0, 0}, {3});
  sum(add(x, b)).backward();
  CHECK(b.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("AG-4: incoming gradients of stride 0 and of few elements",
          "[device][mean][cross_entropy]") {
  Tensor logits = on_test_device(zeros({64, 2}));
  logits.set_requires_grad();
  sum(cross_entropy(logits, on_test_device(zeros({64}, DType::kInt64)),
                    {.reduction = Reduction::kNone}))
      .backward();
  const auto d = logits.grad().to_vector<float>();
  for (size_t i = 0; i < d.size(); ++i) CHECK(d[i] == (i % 2 == 0 ? -0.5F : 0.5F));

  Tensor x = counted({3, 2, 7, 7});
  x.set_requires_grad();
  const Tensor g = on_test_device(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
  mean(mean(x, {-1}), {-1}).backward(g);
  const auto dx = x.grad().to_vector<float>();
  for (size_t i = 0; i < dx.size(); ++i)
    CHECK(dx[i] == Approx(static_cast<double>(i / 49 + 1) / 49.0));
}

TEST_CASE("AG-4: through a transpose into a product", "[device][transpose][linear]") {
  Tensor x = counted({5, 4});
  x.set_requires_grad();
  Tensor w = counted({3, 5});
  w.set_requires_grad();
  const Tensor dy = counted({4, 3});
  linear(transpose(x, 0, 1), w, Tensor()).backward(dy);
  const Tensor dx = x.grad();
  const Tensor dw = w.grad();
  x.set_grad({});
  w.set_grad({});
  linear(clone(contiguous(transpose(x, 0, 1))), w, Tensor()).backward(dy);
  check_same_bits(dx, x.grad());
  check_same_bits(dw, w.grad());
}

TEST_CASE("AG-5 (a): a second backward needs retain_graph, whatever was saved", "[device][mul]") {
  for (const bool saves : {true, false}) {
    Tensor x = leaf({2}, {});
    const auto loss = [&] { return saves ? mul(x, x) : mul(x, 3.0); };
    const double once = saves ? 4.0 : 3.0;
    Tensor l = loss();
    l.backward();
    check_error([&] { l.backward(); }, "retain_graph");
    CHECK(x.grad().item() == once);
    x.set_grad({});
    l = loss();
    l.backward({}, true);
    CHECK(x.grad().item() == once);
    l.backward();
    CHECK(x.grad().item() == 2 * once);
  }
}

TEST_CASE("AG-6: an empty batch goes through forward and backward",
          "[device][linear][conv2d][relu]") {
  Tensor w = on_test_device(ones({3, 5}));
  Tensor b = on_test_device(ones({3}));
  w.set_requires_grad();
  b.set_requires_grad();
  const Tensor y = linear(on_test_device(zeros({0, 5})), w, b);
  CHECK(y.shape() == Shape{0, 3});
  sum(y).backward();
  CHECK(w.grad().to_vector<float>() == std::vector<float>(15, 0));
  CHECK(b.grad().to_vector<float>() == std::vector<float>(3, 0));

  Tensor kernel = on_test_device(ones({4, 3, 3, 3}));
  kernel.set_requires_grad();
  const Tensor image =
      conv2d(on_test_device(zeros({0, 3, 32, 32})), kernel, Tensor(), {.padding = {1, 1}});
  CHECK(image.shape() == Shape{0, 4, 32, 32});
  sum(max_pool2d(relu(image), {})).backward();
  CHECK(kernel.grad().to_vector<float>() == std::vector<float>(108, 0));

  Tensor rows = on_test_device(zeros({0, 7}));
  rows.set_requires_grad();
  sum(log_softmax(rows)).backward();
  CHECK(rows.grad().shape() == Shape{0, 7});
  CHECK(relu(on_test_device(Tensor::from<float>({-1, 2}, {2}))).to_vector<float>() ==
        std::vector<float>{0, 2});
}

TEST_CASE("gradients of two widths are added in the leaf's", "[device][to][add]") {
  Tensor x = leaf({1, 2}, {2});
  const Tensor half = to(x, DType::kFloat16);
  sum(add(mul(to(half, DType::kFloat32), 2.0), mul(x, 3.0))).backward();
  CHECK(x.grad().dtype() == DType::kFloat32);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{5, 5});
}

TEST_CASE("a gradient keeps the storage order of its leaf", "[device][contiguous][add]") {
  Tensor x =
      on_test_device(Tensor::empty({2, 3, 4, 5}, DType::kFloat32, MemoryFormat::kChannelsLast));
  fill_(x, 1.0);
  x.set_requires_grad();
  const Tensor dy = counted({2, 3, 4, 5});
  mul(contiguous(x), 2.0).backward(dy);
  CHECK(x.grad().is_contiguous(MemoryFormat::kChannelsLast));
  check_same_bits(x.grad(), mul(dy, 2.0));
}

}  // namespace
}  // namespace heddle
