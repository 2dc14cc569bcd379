#include <fmt/format.h>

#include "heddle/apps/bench_step/sides.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"

namespace heddle::bench {
namespace {

constexpr int64_t kClasses = 10, kSize = 32;

struct Training {
  explicit Training(const StepWork& work) : model(make_model(work.model)) {
    if (work.dtype != DType::kFloat32) model->to(work.dtype);
    images = to(contiguous(randn({work.batch, 3, kSize, kSize}, Rng(17, RngPurpose::kUser)),
                           MemoryFormat::kChannelsLast),
                work.dtype);
    std::vector<int64_t> classes;
    for (int64_t i = 0; i < work.batch; ++i) classes.push_back(i % kClasses);
    labels = Tensor::from(classes, {work.batch});
    adam.emplace(model->parameters(), AdamOptions{.lr = 1e-3});
  }

  void step() {
    adam->zero_grad();
    const Tensor loss = cross_entropy((*model)(images), labels);
    loss.backward();
    adam->step();
    last_loss = loss.item();
  }

  std::unique_ptr<Module> model;
  std::optional<Adam> adam;
  Tensor images, labels;
  double last_loss = 0.0;
};

}  // namespace

std::string StepWork::name() const { return fmt::format("{} batch {} {}", model, batch, dtype); }

StepSide own_side(const StepWork& work) {
  const auto training = std::make_shared<Training>(work);
  return {kOwnSide, [training] { training->step(); }, [training] { return training->last_loss; }};
}

}  // namespace heddle::bench
