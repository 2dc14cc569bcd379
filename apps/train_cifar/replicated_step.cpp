#include "heddle/apps/train_cifar/replicated_step.h"

#include <cmath>

#include "heddle/apps/train_cifar/evaluate.h"
#include "heddle/apps/train_cifar/finite.h"
#include "heddle/apps/train_cifar/optimizer_setup.h"
#include "heddle/core/phase.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {
namespace {

DataParallelOptions parallel_options(const Options& o) {
  const auto n_devices = static_cast<int64_t>(parse_devices(o.devices).size());
  return {.shards = o.shards > 0 ? o.shards : n_devices * o.accumulate};
}

}  // namespace

bool ReplicatedStep::wanted(const Options& o) {
  return o.shards > 0 || parse_devices(o.devices).size() > 1;
}

ReplicatedStep::ReplicatedStep(const Options& options, Module& model, Optimizer& optimizer)
    : options_(options),
      parallel_(
          model, [&options] { return make_model(options.model); }, parse_devices(options.devices),
          parallel_options(options)),
      optimizer_(parallel_, optimizer,
                 [&options](const Module& replica) { return make_optimizer(options, replica); }) {}

StepResult ReplicatedStep::run(const Batch& batch, int64_t step, double lr_scale) {
  const PhaseSpan span(Phase::kCompute, "step of all replicas");
  parallel_.set_step(step);
  optimizer_.set_lr_scale(lr_scale);
  optimizer_.zero_grad();
  const auto loss = [this](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
  };
  const DataParallel::Result result = parallel_.forward_backward(batch.images, batch.labels, loss);
  if (!std::isfinite(result.loss))
    fail(
        "step {}: the loss is {}; first layer whose output is not finite: {}; the last checkpoint "
        "is kept",
        step + 1, result.loss, first_layer_not_finite(parallel_.module(), batch.images));
  if (options_.clip_norm > 0) optimizer_.clip_grad_norm(options_.clip_norm);
  optimizer_.step();
  return {.loss = result.loss, .n_correct = count_correct(result.output, batch.labels)};
}

}  // namespace heddle::train_cifar
