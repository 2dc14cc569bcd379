#include "heddle/core/tape.h"

#include <thread>

#include "heddle/kernels/host/parallel_for.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

Tensor leaf(std::vector<float> values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor x = Tensor::from(values, {n});
  x.set_requires_grad();
  return x;
}

using Floats = std::vector<float>;

TEST_CASE("A node used twice passes on both gradients", "[tape][AG-3]") {
  const Tensor x = leaf({2});
  const Tensor y = x * 3.0;
  (y * 2.0 + y * 5.0).backward();
  CHECK(x.grad().item() == 21.0);

  const Tensor z = leaf({2});
  (z * z + z).backward();
  CHECK(z.grad().item() == 5.0);
}

TEST_CASE("A write to a saved tensor is an error that names it", "[tape][AG-1]") {
  const Tensor x0 = leaf({1, 2, 3});
  Tensor x = x0 * 1.0;
  x.set_name("activations");
  Tensor y = x * x;

  SECTION("written itself") {
    add_(x, 1.0);
    CHECK_THROWS_WITH(sum(y).backward(), ContainsSubstring("\"activations\""));
  }
  SECTION("through a view") {
    Tensor v = reshape(x, {3, 1});
    CHECK_THROWS_WITH(add_(v, 1.0), ContainsSubstring("is a view of a tensor with history"));
    {
      const NoGradGuard no_grad;
      add_(v, 1.0);
    }
    CHECK_THROWS_WITH(sum(y).backward(), ContainsSubstring("\"activations\""));
  }
  SECTION("without recording") {
    {
      const NoGradGuard no_grad;
      add_(x, 1.0);
    }
    CHECK_THROWS_WITH(sum(y).backward(), ContainsSubstring("written in place"));
  }
  SECTION("the result of the product was not saved") {
    add_(y, 1.0);
    sum(y).backward();
    CHECK(x0.grad().to_vector<float>() == Floats{2, 4, 6});
  }
}

TEST_CASE("A leaf that requires grad is not written in place while recording", "[tape]") {
  Tensor x = leaf({1});
  x.set_name("weight");
  CHECK_THROWS_WITH(add_(x, 1.0), ContainsSubstring("\"weight\" (1) is a leaf that requires grad"));
  CHECK(x.item() == 1.0);
}

TEST_CASE("A view taken before a write is not used after it", "[tape]") {
  Tensor x = leaf({1, 2}) * 1.0;
  const Tensor v = reshape(x, {2, 1});
  mul_(x, 3.0);
  CHECK_THROWS_WITH(v * 2.0, ContainsSubstring("take the view again"));
  CHECK(sum(reshape(x, {2, 1}) * 2.0).item() == 18.0);
}

TEST_CASE("A second backward needs retain_graph", "[tape][AG-5]") {
  const bool square = GENERATE(true, false);
  const Tensor x = leaf({2});
  const Tensor once = square ? x * x : x * 3.0;
  const double first = square ? 4.0 : 3.0;
  once.backward();
  CHECK(x.grad().item() == first);
  CHECK_THROWS_WITH(once.backward(), ContainsSubstring("retain_graph"));
  CHECK(x.grad().item() == first);

  x.set_grad({});
  const Tensor twice = square ? x * x : x * 3.0;
  twice.backward({}, true);
  CHECK(x.grad().item() == first);
  twice.backward();
  CHECK(x.grad().item() == 2 * first);
}

TEST_CASE("Hooks run when a leaf is complete, in the order of the reverse walk", "[tape]") {
  const Tensor first = leaf({1});
  const Tensor second = leaf({1});
  std::vector<std::string> order;
  first.register_post_accumulate_grad_hook([&](const Tensor& t) {
    order.push_back("first");
    CHECK(t.grad().item() == 12.0);
  });
  second.register_post_accumulate_grad_hook([&](const Tensor&) { order.push_back("second"); });
  const Tensor a = first * 2.0;
  const Tensor b = a * second;
  (b * 5.0 + first * 2.0).backward();
  CHECK(order == std::vector<std::string>{"second", "first"});
  CHECK_THROWS_WITH(a.register_post_accumulate_grad_hook([](const Tensor&) {}),
                    ContainsSubstring("no leaf"));
}

TEST_CASE("Nothing is recorded under NoGradGuard, in worker threads too", "[tape]") {
  const Tensor x = leaf({1});
  {
    const NoGradGuard no_grad;
    CHECK_FALSE((x * 2.0).requires_grad());
    std::atomic<int> recording{0};
    set_num_threads(3);
    parallel_for(64, [&](int64_t) { recording += grad_enabled() ? 1 : 0; });
    CHECK(recording == 0);
    const GradState state;
    std::thread([&] {
      CHECK(grad_enabled());
      const auto scope = state.apply();
      CHECK_FALSE(grad_enabled());
    }).join();
  }
  CHECK(grad_enabled());
  CHECK((x * 2.0).requires_grad());
}

TEST_CASE("Each thread has its own tape", "[tape]") {
  std::vector<double> gradients(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < gradients.size(); ++t)
    threads.emplace_back([&gradients, t] {
      const Tensor x = leaf({static_cast<float>(t)});
      for (int i = 0; i < 50; ++i) {
        x.set_grad({});
        (x * x).backward();
      }
      gradients[t] = x.grad().item();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(gradients == std::vector<double>{0, 2, 4, 6});
}

TEST_CASE("A forgotten backward leaks nothing, however long the graph", "[tape]") {
  const int64_t before = memory::stats(Device::cpu()).in_use;
  {
    Tensor x = leaf({1});
    for (int i = 0; i < 200000; ++i) x = x * 1.0;
  }
  CHECK(memory::stats(Device::cpu()).in_use == before);
  {
    const Tensor start = leaf({1});
    Tensor x = start;
    for (int i = 0; i < 20000; ++i) x = x * 1.0;
    x.backward();
    CHECK(start.grad().item() == 1.0);
  }
  CHECK(memory::stats(Device::cpu()).in_use == before);
}

TEST_CASE("Gradients of a leaf add up, and a shared one is copied", "[tape]") {
  const Tensor a = leaf({1, 2});
  const Tensor b = leaf({3, 4});
  sum(a + b).backward();
  sum(a * 2.0).backward();
  CHECK(a.grad().to_vector<float>() == Floats{3, 3});
  CHECK(b.grad().to_vector<float>() == Floats{1, 1});
  CHECK(a.grad().storage() != b.grad().storage());
}

TEST_CASE("backward explains what is missing", "[tape]") {
  CHECK_THROWS_WITH(Tensor::from<float>({1}, {1}).backward(), ContainsSubstring("requires grad"));
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH((x * 2.0).backward(), ContainsSubstring("shape is (2), expected one element"));
  CHECK_THROWS_WITH((x * 2.0).backward(Tensor::from<float>({1}, {1})),
                    ContainsSubstring("gradient is float32 (1), the tensor float32 (2)"));
  Tensor integers = Tensor::from<int64_t>({1}, {1});
  CHECK_THROWS_WITH(integers.set_requires_grad(), ContainsSubstring("int64 has no gradients"));
  Tensor result = x * 2.0;
  CHECK_THROWS_WITH(result.set_requires_grad(), ContainsSubstring("detach"));
  CHECK_THROWS_WITH(x.set_grad(Tensor::from<float>({1}, {1})), ContainsSubstring("set_grad"));
}

TEST_CASE("A function of the user's own is checked", "[tape]") {
  const Tensor x = leaf({1, 2});
  Tensor y = Tensor::from<float>({2, 4}, {2});
  record("twice", y, {x}, [](const Tensor& dy) { return Gradients{dy * 2.0}; });
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == Floats{2, 2});

  Tensor wrong = Tensor::from<float>({3}, {1});
  record("wrong", wrong, {x}, [](const Tensor& dy) { return Gradients{dy}; });
  CHECK_THROWS_WITH(wrong.backward(), ContainsSubstring("wrong: its backward gave a gradient of "
                                                        "shape (1) for input 0 of shape (2)"));
  Tensor few = Tensor::from<float>({3}, {1});
  record("few", few, {x}, [](const Tensor&) { return Gradients{}; });
  CHECK_THROWS_WITH(few.backward(), ContainsSubstring("few: its backward gave 0 gradients for 1"));
}

}  // namespace
}  // namespace heddle
