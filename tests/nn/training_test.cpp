// Properties of whole training steps.
#include <atomic>
#include <thread>

#include "heddle/core/memory.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/nn/modules/activation.h"
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/dropout.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/pooling.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/nn/golden/formula.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"
#include "heddle/tests/support/temporary_folder.h"

namespace heddle {
namespace {

Sequential small_net() {
  return Sequential(Conv2d(3, 8, 3, {.padding = 1, .bias = false}),
                    BatchNorm2d(8, {.fuse_relu = true}), MaxPool2d(2), Dropout(0.25),
                    Linear(ImageSize{8, 4, 4}, 10));
}

/// Values that depend on the step, so that a resumed run must take up at the right one.
Tensor batch_of(int64_t step) {
  return Tensor::from(golden::values(8 * 3 * 8 * 8, static_cast<uint32_t>(step) + 5, 1.0F),
                      {8, 3, 8, 8});
}

double train_step(Module& model, Optimizer& optimizer, int64_t step) {
  model.set_step(step);
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(model(batch_of(step)), golden::labels(8));
  loss.backward();
  optimizer.step();
  return loss.item();
}

std::vector<std::vector<float>> content(const Module& model) {
  std::vector<std::vector<float>> result;
  for (const auto& [name, tensor] : model.state()) result.push_back(tensor.to_vector<float>());
  return result;
}

class ThreadsScope {
 public:
  explicit ThreadsScope(int threads) : previous_(num_threads()) { set_num_threads(threads); }
  ~ThreadsScope() { set_num_threads(previous_); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int previous_;
};

TEST_CASE("training: ten steps are five, a file, and five more, bit for bit") {  // CK-5
  const test::ProviderScope native(Provider::kNative);
  const test::TemporaryFolder folder;
  manual_seed(4);
  Sequential whole = small_net();
  Adam adam(whole.parameters(), {.lr = 1e-2});
  for (int64_t step = 0; step < 5; ++step) train_step(whole, adam, step);
  NamedTensors saved = whole.state();
  for (const auto& [name, tensor] : adam.state()) saved.emplace_back("optimizer/" + name, tensor);
  save_safetensors(folder / "f", saved);
  std::vector<double> losses;
  for (int64_t step = 5; step < 10; ++step) losses.push_back(train_step(whole, adam, step));

  manual_seed(4);
  Sequential resumed = small_net();
  Adam fresh(resumed.parameters(), {.lr = 1e-2});
  NamedTensors model_state, optimizer_state;
  for (const auto& [name, tensor] : SafetensorsFile(folder / "f").tensors())
    name.starts_with("optimizer/") ? optimizer_state.emplace_back(name.substr(10), tensor)
                                   : model_state.emplace_back(name, tensor);
  resumed.load_state(model_state);
  fresh.load_state(optimizer_state);
  for (int64_t step = 5; step < 10; ++step)
    CHECK(train_step(resumed, fresh, step) == losses[static_cast<size_t>(step - 5)]);
  CHECK(content(resumed) == content(whole));
}

TEST_CASE("training: a batch whose labels are all ignored moves no weight") {  // NU-3 (d)
  manual_seed(4);
  Sequential model = small_net();
  Sgd sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Adam adam(model.parameters(), {.lr = 1e-2});
  const auto weights = [&] {  // not batch-norm's statistics, which follow the pictures
    std::vector<std::vector<float>> result;
    for (const Tensor& parameter : model.parameters())
      result.push_back(parameter.to_vector<float>());
    return result;
  };
  const auto before = weights();
  const Tensor ignored = full({8}, -100.0, DType::kInt64);
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&sgd), static_cast<Optimizer*>(&adam)}) {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(model(batch_of(0)), ignored);
    CHECK(loss.item() == 0.0);
    loss.backward();
    optimizer->step();
    CHECK(weights() == before);
  }
}

TEST_CASE("training: any number of threads gives the same bits") {
  const test::ProviderScope native(Provider::kNative);
  std::vector<std::vector<float>> results[2];
  for (const int threads : {1, 3}) {
    const ThreadsScope scope(threads);
    manual_seed(4);
    Sequential model = small_net();
    Adam adam(model.parameters(), {.lr = 1e-2});
    for (int64_t step = 0; step < 3; ++step) train_step(model, adam, step);
    results[threads == 3] = content(model);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("training: memory in use is the same at steps 10 and 100, loss kept") {  // AG-5
  const test::ProviderScope native(Provider::kNative);
  // With more threads it is a matter of timing at which step all need scratch space at once.
  const ThreadsScope one_thread(1);
  manual_seed(4);
  Sequential model = small_net();
  Adam adam(model.parameters(), {.lr = 1e-3});
  double running_loss = 0.0;
  MemoryStats at_10;
  for (int64_t step = 1; step <= 100; ++step) {
    running_loss += train_step(model, adam, step);
    if (step == 10) at_10 = memory::stats(Device::cpu());
  }
  const MemoryStats at_100 = memory::stats(Device::cpu());
  CHECK(at_100.in_use == at_10.in_use);
  CHECK(at_100.held == at_10.held);
  CHECK(at_100.system_calls == at_10.system_calls);
  CHECK(at_100.peak_in_use == at_10.peak_in_use);
  CHECK(running_loss > 0.0);
}

TEST_CASE("training: accumulated parts give the gradient of the whole batch") {
  const test::ProviderScope native(Provider::kNative);
  manual_seed(4);
  Sequential model(Conv2d(3, 8, 3, {.padding = 1, .fuse_relu = true}),
                   Linear(ImageSize{8, 8, 8}, 10));
  const Tensor x = batch_of(0);
  const Tensor labels = golden::labels(8);
  cross_entropy(model(x), labels).backward();
  std::vector<std::vector<float>> whole;
  for (const Tensor& parameter : model.parameters())
    whole.push_back(parameter.grad().to_vector<float>());
  model.zero_grad();
  for (const auto& [start, length] : {std::pair(0, 3), std::pair(3, 5)}) {  // weighed by samples
    const Tensor loss =
        cross_entropy(model(narrow(x, 0, start, length)), narrow(labels, 0, start, length));
    (loss * (length / 8.0)).backward();
  }
  for (size_t p = 0; p < whole.size(); ++p) {
    const std::vector<float> parts = model.parameters()[p].grad().to_vector<float>();
    for (size_t i = 0; i < parts.size(); ++i)
      REQUIRE(parts[i] == Approx(whole[p][i]).epsilon(1e-4).margin(1e-6));
  }
}

TEST_CASE("training: no history is kept under a guard, on worker threads neither") {
  manual_seed(4);
  Sequential model = small_net();
  const NoGradGuard no_grad;
  CHECK_FALSE(model(batch_of(0)).requires_grad());
  const GradState state;
  bool on_worker = true;
  std::thread([&] {
    const GradState::Scope scope = state.apply();
    on_worker = model(batch_of(0)).requires_grad();
  }).join();
  CHECK_FALSE(on_worker);
  std::atomic<int> recording = 0;
  parallel_for(64, [&](int64_t) { recording += grad_enabled() ? 1 : 0; });
  CHECK(recording == 0);
}

TEST_CASE("training: a user's mistake in a step leaves the model usable") {
  manual_seed(4);
  Sequential model = small_net();
  Adam adam(model.parameters(), {.lr = 1e-2});
  CHECK_THROWS_AS(cross_entropy(model(batch_of(0)), golden::labels(7)), Error);
  CHECK_THROWS_AS(model(Tensor::from(std::vector<float>(8, 1.0F), {8, 1, 1, 1})), Error);
  const double first = train_step(model, adam, 0);
  for (int64_t i = 0; i < 20; ++i) train_step(model, adam, 0);
  CHECK(train_step(model, adam, 0) < first);
}

}  // namespace
}  // namespace heddle
