// Training steps that are replayed as a graph against those that are called: the same bits, under
// every schedule of cudasim.
#include <algorithm>
#include <limits>
#include <memory>

#include <cudasim/control.h>
#include <cudasim/order.h>
#include "heddle/apps/train_cifar/optimizer_setup.h"
#include "heddle/apps/train_cifar/step_runner.h"
#include "heddle/data/synthetic.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/modules/dropout.h"
#include "heddle/nn/modules/pooling.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle::train_cifar {
namespace {

const Device kFirst{DeviceType::kCuda, 0};

/// SimpleCnn's structure, narrow, with dropout.
std::unique_ptr<Module> small_simple_cnn() {
  return std::make_unique<Sequential>(
      Conv2d(3, 4, 3, {.stride = 2, .padding = 1, .fuse_relu = true}),
      Conv2d(4, 8, 3, {.padding = 1, .fuse_relu = true}), MaxPool2d(4), Dropout(0.25),
      Linear(ImageSize{8, 4, 4}, 16, {.fuse_relu = true}), Dropout(0.5), Linear(16, 10));
}

/// ResNet's structure, narrow, with dropout.
std::unique_ptr<Module> small_resnet() {
  return std::make_unique<Sequential>(Conv2d(3, 4, 3, {.stride = 4, .padding = 1, .bias = false}),
                                      BatchNorm2d(4, {.fuse_relu = true}), BasicBlock(4, 4, 1),
                                      BasicBlock(4, 8, 2), AdaptiveAvgPool2d(), Dropout(0.25),
                                      Linear(ImageSize{8, 1, 1}, 10));
}

struct Case {
  std::string model = "simple_cnn";
  std::string precision = "fp32";
  std::string optimizer = "adam";
  int64_t accumulate = 1;
  double clip_norm = 0.0;
};

Options options_of(const Case& c, const std::string& graph) {
  Options options;
  options.devices = "cuda:0";
  options.batch_size = 4;
  options.precision = c.precision;
  options.optimizer = c.optimizer;
  options.momentum = c.optimizer == "sgd" ? 0.9 : 0.0;
  options.lr = 0.01;
  options.label_smoothing = 0.1;
  options.accumulate = c.accumulate;
  options.clip_norm = c.clip_norm;
  options.graph = graph;
  return options;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<int64_t> correct;
  std::vector<bool> taken;
  std::vector<std::vector<float>> content;
  std::vector<GradScalerState> scales;
  int64_t replays = 0;
};

/// Two epochs of five batches of 4 and one of 2, augmented on the device; another learning rate
/// each step, and a loss scale that overflows at first and once more.
Outcome train(const Case& c, const std::string& graph) {
  const Options options = options_of(c, graph);
  manual_seed(11);
  const std::unique_ptr<Module> model = c.model == "resnet" ? small_resnet() : small_simple_cnn();
  model->to(kFirst);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(options, *model);
  StepRunner runner(options, *model, *optimizer);
  const Autocast precision(dtype_of(options));
  Loader loader(Synthetic(Split::kTrain, {.size = 22}),
                {.batch_size = 4,
                 .shuffle = true,
                 .workers = 1,
                 .device = kFirst,
                 .transform = {.crop_padding = 4, .flip = true, .cutout = 8}});
  constexpr double kOverflows = 16777216.0 * 65536.0;
  if (runner.scaler() != nullptr) runner.scaler()->load_state({.scale = kOverflows});
  Outcome outcome;
  int64_t step = 0;
  int64_t batches = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : loader) {
      if (runner.scaler() != nullptr && ++batches == 8)
        runner.scaler()->load_state({.scale = kOverflows});
      const double lr_scale = 1.0 / static_cast<double>(1 + step);
      const StepResult result = runner.run(batch, step, lr_scale);
      step += result.taken ? 1 : 0;
      outcome.losses.push_back(result.loss);
      outcome.correct.push_back(result.n_correct);
      outcome.taken.push_back(result.taken);
      if (runner.scaler() != nullptr) outcome.scales.push_back(runner.scaler()->state());
    }
  }
  for (const NamedTensors& state : {model->state(), optimizer->state()})
    for (const auto& [name, tensor] : state) outcome.content.push_back(tensor.to_vector<float>());
  outcome.replays = runner.replays();
  return outcome;
}

void check_same(const Case& c) {
  CAPTURE(c.model, c.precision, c.optimizer, c.accumulate, c.clip_norm);
  const Outcome called = train(c, "off"), replayed = train(c, "on");
  CHECK(called.replays == 0);
  CHECK(replayed.replays == 8);  // of 12 steps two are on short batches, and two warm up
  CHECK(replayed.losses == called.losses);
  CHECK(replayed.correct == called.correct);
  CHECK(replayed.taken == called.taken);
  CHECK(replayed.scales == called.scales);
  CHECK(replayed.content == called.content);
  const auto skips = std::count(called.taken.begin(), called.taken.end(), false);
  CHECK((skips > 0) == (c.precision == "fp16"));
}

/// Runs `body` under one schedule after another; the one from before afterwards.
template <class Body>
void under_schedules(uint64_t n_seeds, const Body& body) {
  const cudasim::Machine machine = cudasim::machine();
  const auto run = [&](cudasim::Schedule schedule, uint64_t seed) {
    INFO("schedule " << static_cast<int>(schedule) << ", seed " << seed);
    cudasim::set_schedule(schedule, seed);
    const cudasim::ExpectOrderFindings expected;
    body();
    CHECK(expected.found().empty());
  };
  run(cudasim::Schedule::kEager, 1);
  run(cudasim::Schedule::kLatest, 1);
  for (uint64_t seed = 1; seed <= n_seeds; ++seed) run(cudasim::Schedule::kRandom, seed);
  cudasim::set_schedule(machine.schedule, machine.seed);
}

TEST_CASE("a replayed training step has the bits of a called one", "[device][sim]") {
  const testing::ChecksOff fast;
  under_schedules(1, [] {
    check_same({.precision = "fp16", .accumulate = 2, .clip_norm = 1.0});
    check_same({.model = "resnet", .optimizer = "sgd"});
  });
}

TEST_CASE("a replayed training step has the bits of a called one, in all forms",
          "[device][sim][slow]") {
  const testing::ChecksOff fast;
  under_schedules(1, [] {
    for (const char* model : {"simple_cnn", "resnet"})
      for (const char* precision : {"fp32", "bf16", "fp16"})
        for (const char* optimizer : {"adam", "adamw", "sgd"})
          for (const int64_t accumulate : {1, 2})
            for (const double clip_norm : {0.0, 0.5})
              check_same({model, precision, optimizer, accumulate, clip_norm});
  });
}

TEST_CASE("a replayed step passes all checks of its accesses", "[device][sim]") {
  check_same({.model = "resnet", .precision = "bf16", .clip_norm = 1.0});
}

/// What the run of a batch with a pixel that is not finite ends with, after `before` good ones.
std::string failure(const std::string& graph, int before, const Case& c) {
  const Options options = options_of(c, graph);
  manual_seed(11);
  const std::unique_ptr<Module> model = small_simple_cnn();
  model->to(kFirst);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(options, *model);
  StepRunner runner(options, *model, *optimizer);
  Batch batch;
  batch.indices = {0, 1, 2, 3};
  batch.labels = to(Tensor::from<int64_t>({1, 2, 3, 4}, {4}), kFirst);
  std::vector<float> pixels(4 * kImageBytes, 0.5F);
  const auto images = [&] {
    const Tensor x = Tensor::from(pixels, {4, kImageChannels, kImageSide, kImageSide});
    return to(x, kFirst);
  };
  batch.images = images();
  for (int step = 0; step < before; ++step) runner.run(batch, step, 1.0);
  pixels[3 * kImageBytes + 5] = std::numeric_limits<float>::quiet_NaN();
  batch.images = images();
  try {
    runner.run(batch, before, 1.0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a loss that is not finite is explained alike, before its step is taken",
          "[device][sim]") {
  const testing::ChecksOff fast;
  for (const int64_t accumulate : {1, 2}) {
    const Case c{.accumulate = accumulate};
    const std::string expected = failure("off", 4, c);
    CHECK_THAT(expected, ContainsSubstring("step 5: the loss is "));
    CHECK_THAT(expected, ContainsSubstring("not finite: the pictures themselves"));
    CHECK(failure("on", 4, c) == expected);
    CHECK(failure("on", 0, c) == failure("off", 0, c));
  }
}

}  // namespace
}  // namespace heddle::train_cifar
