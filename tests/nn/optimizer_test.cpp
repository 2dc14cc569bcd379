#include "heddle/nn/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle {
namespace {

Tensor parameter(const std::vector<float>& values, const std::string& name = "w") {
  Tensor tensor =
      testing::on_test_device(Tensor::from(values, {static_cast<int64_t>(values.size())}));
  tensor.set_requires_grad();
  tensor.set_name(name);
  return tensor;
}

void step_with(Optimizer& optimizer, const Tensor& theta, float gradient) {
  theta.set_grad(testing::on_test_device(Tensor::from(std::vector<float>{gradient}, {1})));
  optimizer.step();
}

TEST_CASE("NU-8, Adam: epsilon stands outside the root and is not scaled", "[device]") {
  const Tensor theta = parameter({1.0F});
  Adam adam({theta}, {.lr = 0.1, .eps = 1e-3});
  step_with(adam, theta, 0.01F);
  CHECK(theta.item() == Approx(0.9090909).epsilon(1e-5));
  step_with(adam, theta, 0.01F);
  CHECK(theta.item() == Approx(0.8181818).epsilon(1e-5));
}

TEST_CASE("NU-8: Adam adds weight decay to the gradient, AdamW decouples it", "[device]") {
  const Tensor a = parameter({1.0F});
  Adam adam({a}, {.lr = 0.1, .weight_decay = 0.1});
  step_with(adam, a, 0.0F);
  CHECK(a.item() == Approx(0.9).epsilon(1e-5));
  const Tensor b = parameter({1.0F});
  AdamW adamw({b}, {.lr = 0.1, .weight_decay = 0.1});
  step_with(adamw, b, 0.0F);
  CHECK(b.item() == Approx(0.99).epsilon(1e-5));
}

TEST_CASE("optimizer: a fresh one takes over moments and counts", "[device]") {  // CK-5
  const Tensor theta = parameter({1.0F});
  Adam adam({theta}, {.lr = 0.1});
  for (int i = 0; i < 5; ++i) step_with(adam, theta, 1.0F);
  CHECK(theta.item() == Approx(0.5).epsilon(1e-5));
  const NamedTensors state = adam.state();
  REQUIRE(state.size() == 3);
  CHECK(state[0].first == "exp_avg/w");
  CHECK(state[0].second.item() == Approx(0.40951).epsilon(1e-5));
  CHECK(state[1].first == "exp_avg_sq/w");
  CHECK(state[1].second.item() == Approx(0.00499001).epsilon(1e-5));
  CHECK(state[2].first == "step/w");
  CHECK(state[2].second.item() == 5.0);

  const Tensor resumed = parameter({static_cast<float>(theta.item())});
  Adam fresh({resumed}, {.lr = 0.1});
  fresh.load_state(state);
  CHECK(fresh.steps() == 5);
  step_with(fresh, resumed, -1.0F);
  CHECK(resumed.item() == Approx(0.442684).epsilon(1e-5));
  step_with(adam, theta, -1.0F);
  CHECK(resumed.item() == theta.item());
}

TEST_CASE("optimizer: a state that does not fit is refused whole") {
  const Tensor theta = parameter({1.0F, 2.0F});
  Adam adam({theta}, {.lr = 0.1});
  NamedTensors state = adam.state();
  state[0].second = Tensor::from<float>({1, 2, 3}, {3});
  state[1].first = "exp_avg_sq/v";
  CHECK_THROWS_WITH(adam.load_state(state),
                    ContainsSubstring("missing: exp_avg_sq/w") &&
                        ContainsSubstring("unexpected: exp_avg_sq/v") &&
                        ContainsSubstring("exp_avg/w is float32 (3), expected float32 (2)"));
  state = adam.state();
  state[2].second = Tensor::from<int64_t>({-1}, {});
  CHECK_THROWS_WITH(adam.load_state(state), ContainsSubstring("step/w is -1"));
  CHECK(adam.steps() == 0);
  Sgd sgd({theta}, {.momentum = 0.9});
  CHECK_THROWS_WITH(sgd.load_state(adam.state()), ContainsSubstring("missing: momentum_buffer/w"));
}

TEST_CASE("Sgd: momentum, Nesterov, dampening and weight decay by hand") {
  const SgdOptions plain{.lr = 0.1};
  const Tensor a = parameter({1.0F});
  Sgd sgd({a}, plain);
  step_with(sgd, a, 2.0F);
  CHECK(a.item() == Approx(0.8));

  const Tensor b = parameter({1.0F});
  Sgd momentum({b}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  step_with(momentum, b, 2.0F);  // d = 2.5, buffer 2.5
  CHECK(b.item() == Approx(0.75));
  step_with(momentum, b, 2.0F);  // d = 2.375, buffer 4.625
  CHECK(b.item() == Approx(0.2875));

  const Tensor c = parameter({1.0F});
  Sgd nesterov({c}, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  step_with(nesterov, c, 1.0F);  // d + 0.9 * 1
  CHECK(c.item() == Approx(0.81));

  const Tensor d = parameter({1.0F});
  Sgd dampened({d}, {.lr = 0.1, .momentum = 0.5, .dampening = 0.5});
  step_with(dampened, d, 1.0F);  // the first buffer is the gradient itself
  CHECK(d.item() == Approx(0.9));
  step_with(dampened, d, 1.0F);  // 0.5 * 1 + 0.5 * 1
  CHECK(d.item() == Approx(0.8));
}

TEST_CASE("optimizer: groups have options of their own, one scale is for all") {
  const Tensor a = parameter({1.0F}, "a");
  const Tensor b = parameter({1.0F}, "b");
  Sgd sgd({{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.01}}});
  sgd.set_lr_scale(0.5);
  CHECK(sgd.lr(0) == Approx(0.05));
  CHECK(sgd.lr(1) == Approx(0.005));
  CHECK_THROWS_WITH(sgd.lr(2), ContainsSubstring("group 2 of 2"));
  a.set_grad(Tensor::from<float>({1}, {1}));
  b.set_grad(Tensor::from<float>({1}, {1}));
  sgd.step();
  CHECK(a.item() == Approx(0.95));
  CHECK(b.item() == Approx(0.995));
  sgd.zero_grad();
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("optimizer: a parameter without gradient stands still, its count too") {
  const Tensor a = parameter({1.0F}, "a");
  const Tensor b = parameter({1.0F}, "b");
  Adam adam({a, b}, {.lr = 0.1});
  step_with(adam, a, 1.0F);
  CHECK(b.item() == 1.0);
  CHECK(adam.state()[5].first == "step/b");
  CHECK(adam.state()[5].second.item() == 0.0);
  a.set_grad({});
  step_with(adam, b, 1.0F);
  CHECK(b.item() == Approx(0.9));
  CHECK(a.item() == Approx(0.9));
}

TEST_CASE("optimizer: parameters and gradients in other storage orders give the same values") {
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  Tensor row = Tensor::from(values, {1, 2, 2, 2});
  Tensor image = contiguous(row, MemoryFormat::kChannelsLast);
  const Tensor gradient = Tensor::from(values, {1, 2, 2, 2});
  std::vector<float> results[2];
  for (Tensor* tensor : {&row, &image}) {
    tensor->set_requires_grad();
    Adam adam({*tensor}, {.lr = 0.1});
    for (int i = 0; i < 3; ++i) {
      tensor->set_grad(gradient);
      adam.step();
    }
    results[tensor == &image] = tensor->to_vector<float>();
    CHECK(adam.state()[0].second.is_contiguous());
    CHECK(adam.state()[0].second.to_vector<float>()[1] == Approx(0.271 * 2));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("clip_grad_norm scales by the common norm, with and without a pass of its own") {
  const Tensor a = parameter({0.0F}, "a");
  const Tensor b = parameter({0.0F}, "b");
  a.set_grad(Tensor::from<float>({3}, {1}));
  b.set_grad(Tensor::from<float>({4}, {1}));
  CHECK(grad_norm({a, b}) == Approx(5.0));
  Sgd sgd({a, b}, {.lr = 1.0});
  CHECK(sgd.clip_grad_norm(1.0) == Approx(5.0));
  CHECK(a.grad().item() == 3.0);
  sgd.step();
  CHECK(a.item() == Approx(-0.6).epsilon(1e-5));
  CHECK(b.item() == Approx(-0.8).epsilon(1e-5));
  sgd.step();  // the clip was for one step
  CHECK(a.item() == Approx(-3.6).epsilon(1e-5));
  CHECK(clip_grad_norm({a, b}, 2.5) == Approx(5.0));
  CHECK(a.grad().item() == Approx(1.5).epsilon(1e-5));
  CHECK(clip_grad_norm({a, b}, 100.0) == Approx(2.5).epsilon(1e-5));
  CHECK(a.grad().item() == Approx(1.5).epsilon(1e-5));
  CHECK_THROWS_WITH(sgd.clip_grad_norm(0.0), ContainsSubstring("max_norm is 0"));
  CHECK(sgd.gradients_finite());
  b.set_grad(Tensor::from<float>({std::numeric_limits<float>::quiet_NaN()}, {1}));
  CHECK_FALSE(sgd.gradients_finite());
}

TEST_CASE("optimizer: impossible options and parameters are refused") {
  const Tensor theta = parameter({1.0F});
  const auto adam = [&](AdamOptions options) { Adam made({theta}, options); };
  CHECK_THROWS_WITH(adam({.lr = -0.1}), ContainsSubstring("Adam: lr is -0.1"));
  CHECK_THROWS_WITH(adam({.lr = std::nan("")}), ContainsSubstring("lr is nan"));
  CHECK_THROWS_WITH(adam({.betas = {1.0, 0.5}}), ContainsSubstring("betas are 1 and 0.5"));
  CHECK_THROWS_WITH(adam({.eps = -1.0}), ContainsSubstring("eps is -1"));
  CHECK_THROWS_WITH(adam({.weight_decay = INFINITY}), ContainsSubstring("weight_decay is inf"));
  CHECK_THROWS_WITH(Sgd({theta}, {.nesterov = true}), ContainsSubstring("nesterov"));
  CHECK_THROWS_WITH(Sgd(std::vector<Tensor>{}), ContainsSubstring("no parameters"));
  CHECK_THROWS_WITH(Sgd({theta, theta}, SgdOptions{}), ContainsSubstring("twice"));
  CHECK_THROWS_WITH(Sgd({Tensor::from<float>({1}, {1})}, SgdOptions{}),
                    ContainsSubstring("not a leaf"));
}

}  // namespace
}  // namespace heddle
