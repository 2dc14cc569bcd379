#include "heddle/nn/amp/grad_scaler.h"

#include <cmath>
#include <limits>

#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/schedule.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor parameter(const std::vector<float>& values, Device device = Device::cpu()) {
  Tensor tensor = to(Tensor::from(values, {static_cast<int64_t>(values.size())}), device);
  tensor.set_requires_grad();
  return tensor;
}

/// One step with the gradient of `slope` times the parameter's sum.
bool train(GradScaler& scaler, Optimizer& optimizer, const Tensor& theta, float slope) {
  optimizer.zero_grad();
  const Tensor factor = to(Tensor::from(std::vector<float>{slope}, {1}), theta.device());
  scaler.scale(sum(theta * factor)).backward();
  const bool taken = scaler.step(optimizer);
  scaler.update();
  return taken;
}

std::vector<Device> devices() { return {Device::best()}; }

TEST_CASE("GradScaler: scale, tracker and parameter move as PyTorch's", "[device]") {
  struct Row {
    bool overflow;
    double scale;
    int64_t tracker;
    double theta;
  };
  // torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=3) with SGD, lr 0.1 (2.15)
  const Row rows[] = {
      {false, 1024, 1, 0.9}, {false, 1024, 2, 0.8}, {true, 512, 0, 0.8},    {false, 512, 1, 0.7},
      {false, 512, 2, 0.6},  {false, 1024, 0, 0.5}, {false, 1024, 1, 0.4},  {true, 512, 0, 0.4},
      {true, 256, 0, 0.4},   {false, 256, 1, 0.3},  {false, 256, 2, 0.2},   {false, 512, 0, 0.1},
      {false, 512, 1, 0.0},  {false, 512, 2, -0.1}, {false, 1024, 0, -0.2}, {false, 1024, 1, -0.3}};
  for (const Device device : devices()) {
    const Tensor theta = parameter({1.0F}, device);
    Sgd sgd({theta}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 1024.0, .growth_interval = 3});
    for (const Row& row : rows) {
      CHECK(train(scaler, sgd, theta, row.overflow ? kInf : 1.0F) == !row.overflow);
      CHECK(scaler.get_scale() == row.scale);
      CHECK(scaler.state().growth_tracker == row.tracker);
      CHECK(std::abs(theta.item() - row.theta) < 1e-6);
    }
  }
}

TEST_CASE("GradScaler: a skipped step changes nothing and advances no schedule", "[device]") {
  // NU-5
  for (const Device device : devices()) {
    const Tensor theta = parameter({1.0F}, device);
    Adam adam({theta}, {.lr = 0.1});
    const Schedule schedule({.kind = ScheduleKind::kStep, .milestones = {1}, .gamma = 0.5});
    GradScaler scaler;
    int64_t position = 0;
    const auto step = [&](float slope) {
      adam.set_lr_scale(schedule.factor(position));
      if (train(scaler, adam, theta, slope)) ++position;
    };
    step(kInf);
    CHECK(theta.item() == 1.0);
    CHECK(adam.steps() == 0);
    CHECK(adam.state()[0].second.item() == 0.0);
    CHECK(adam.state()[1].second.item() == 0.0);
    CHECK(position == 0);
    CHECK(scaler.get_scale() == 32768.0);
    step(1.0F);
    CHECK(theta.item() == Approx(0.9).epsilon(1e-5));  // 0.925586 where the skip was counted
    CHECK(adam.steps() == 1);
    CHECK(position == 1);
  }
}

TEST_CASE("GradScaler: replicas agree where one of them overflows", "[device]") {  // NU-5
  for (const Device device : devices()) {
    const Tensor thetas[2] = {parameter({1.0F}, device), parameter({1.0F}, device)};
    Adam first({thetas[0]}, {.lr = 0.1}), second({thetas[1]}, {.lr = 0.1});
    GradScaler scalers[2];
    Adam* adams[2] = {&first, &second};
    for (const float slope : {kInf, 1.0F}) {
      for (int r = 0; r < 2; ++r) {
        adams[r]->zero_grad();
        const std::vector<float> own{r == 1 ? slope : 1.0F};
        const Tensor factor = to(Tensor::from(own, {1}), device);
        scalers[r].scale(sum(thetas[r] * factor)).backward();
        adams[r]->begin_step(1.0 / scalers[r].get_scale());
        adams[r]->check_gradients();
      }
      const Tensor either = first.found_inf() + second.found_inf();
      for (Adam* adam : adams) {
        Tensor flag = adam->found_inf();
        copy_(flag, either);
      }
      for (int r = 0; r < 2; ++r) {
        adams[r]->apply_step();
        scalers[r].note_step(adams[r]->finish_step());
        scalers[r].update();
      }
      CHECK(scalers[0].state() == scalers[1].state());
      CHECK(thetas[0].to_vector<float>() == thetas[1].to_vector<float>());
      CHECK(first.steps() == second.steps());
      CHECK(scalers[0].get_scale() == 32768.0);
      CHECK(thetas[0].item() == Approx(slope == kInf ? 1.0 : 0.9).epsilon(1e-5));
    }
  }
}

TEST_CASE("GradScaler: clipping sees unscaled gradients", "[device]") {
  for (const Device device : devices()) {
    const Tensor fused = parameter({0.0F, 0.0F}, device), by_hand = parameter({0.0F, 0.0F}, device);
    const Tensor slopes = to(Tensor::from<float>({3, 4}, {2}), device);
    Sgd a({fused}, {.lr = 1.0}), b({by_hand}, {.lr = 1.0});
    GradScaler scaler;
    scaler.scale(sum(fused * slopes)).backward();
    CHECK(scaler.step(a, 1.0));
    scaler.update();
    CHECK(fused.to_vector<float>()[0] == Approx(-0.6).epsilon(1e-5));
    CHECK(fused.to_vector<float>()[1] == Approx(-0.8).epsilon(1e-5));
    scaler.scale(sum(by_hand * slopes)).backward();
    scaler.unscale_(b);
    CHECK(b.clip_grad_norm(1.0) == Approx(5.0));
    CHECK(scaler.step(b));
    CHECK(by_hand.to_vector<float>()[0] == Approx(-0.6).epsilon(1e-5));
    CHECK(by_hand.to_vector<float>()[1] == Approx(-0.8).epsilon(1e-5));
  }
}

TEST_CASE("GradScaler: the scale is capped and floored, and gives up in the end") {
  const Tensor theta = parameter({1.0F});
  Sgd sgd({theta}, {.lr = 0.0});
  GradScaler scaler({.init_scale = 4.0, .growth_interval = 1, .max_scale = 8.0, .max_skips = 5});
  for (const double expected : {8.0, 8.0}) {
    train(scaler, sgd, theta, 1.0F);
    CHECK(scaler.get_scale() == expected);
  }
  for (const double expected : {4.0, 2.0, 1.0, 1.0}) {
    train(scaler, sgd, theta, kInf);
    CHECK(scaler.get_scale() == expected);
  }
  CHECK_FALSE(scaler.stuck());
  train(scaler, sgd, theta, NAN);
  CHECK(scaler.stuck());
  CHECK(scaler.skips_in_a_row() == 5);
  train(scaler, sgd, theta, 1.0F);
  CHECK(scaler.skips_in_a_row() == 0);
}

TEST_CASE("GradScaler: its state goes on where it was") {
  const Tensor theta = parameter({1.0F});
  Sgd sgd({theta}, {.lr = 0.1});
  GradScaler scaler({.growth_interval = 3});
  for (const float slope : {1.0F, kInf, 1.0F, 1.0F}) train(scaler, sgd, theta, slope);
  GradScaler resumed({.growth_interval = 3});
  resumed.load_state(scaler.state());
  for (GradScaler* each : {&scaler, &resumed}) train(*each, sgd, theta, 1.0F);
  CHECK(resumed.state() == scaler.state());
  CHECK(resumed.get_scale() == 65536.0);
  CHECK_THROWS_WITH(resumed.load_state({.scale = 0.0}), ContainsSubstring("scale is 0"));
  CHECK_THROWS_WITH(resumed.load_state({.scale = 1.0, .skips = -1}), ContainsSubstring("skips -1"));
}

TEST_CASE("GradScaler: calls and options out of order are refused") {
  const Tensor theta = parameter({1.0F});
  Sgd sgd({theta}, {.lr = 0.1});
  GradScaler scaler;
  CHECK_THROWS_WITH(scaler.update(), ContainsSubstring("no step since"));
  scaler.scale(sum(theta)).backward();
  scaler.unscale_(sgd);
  CHECK(theta.grad().item() == 1.0);
  CHECK_THROWS_WITH(scaler.unscale_(sgd), ContainsSubstring("called after unscale_"));
  CHECK(scaler.step(sgd));
  CHECK_THROWS_WITH(scaler.step(sgd), ContainsSubstring("called twice"));
  CHECK_THROWS_WITH(scaler.unscale_(sgd), ContainsSubstring("called after step"));
  const auto made = [](GradScalerOptions options) { GradScaler refused(options); };
  CHECK_THROWS_WITH(made({.growth_factor = 1.0}), ContainsSubstring("growth_factor is 1"));
  CHECK_THROWS_WITH(made({.backoff_factor = 1.0}), ContainsSubstring("backoff_factor is 1"));
  CHECK_THROWS_WITH(made({.growth_interval = 0}), ContainsSubstring("growth_interval is 0"));
  CHECK_THROWS_WITH(made({.init_scale = 0.5}), ContainsSubstring("expected in order"));
  GradScaler off({.enabled = false});
  CHECK(off.scale(theta).is_same(theta));
  CHECK(off.get_scale() == 1.0);
  theta.set_grad(Tensor::from<float>({2}, {1}));
  CHECK(off.step(sgd, 1.0));
  off.update();
  CHECK(theta.item() == Approx(0.8));
}

}  // namespace
}  // namespace heddle
