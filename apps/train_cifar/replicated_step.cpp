#include "heddle/apps/train_cifar/replicated_step.h"

#include <cmath>

#include "heddle/apps/train_cifar/finite.h"
#include "heddle/apps/train_cifar/optimizer_setup.h"
#include "heddle/core/phase.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/ops.h"
#include "heddle/parallel/gather.h"

namespace heddle::train_cifar {
namespace {

DataParallelOptions parallel_options(const Options& o) {
  const auto n_devices = static_cast<int64_t>(parse_devices(o.devices).size());
  return {.shards = o.shards > 0 ? o.shards : n_devices * o.accumulate,
          .exchange = parse_exchange_kind(o.exchange),  // none: auto
          .sync_batch_norm = o.sync_batch_norm};
}

/// The rows of all parts, on the first device.
Tensor rows_of(const Batch& batch, Tensor BatchPart::*which) {
  std::vector<Tensor> parts;
  for (const BatchPart& part : batch.parts)
    if (part.size() > 0) parts.push_back(part.*which);
  return gather(parts, batch.parts[0].images.device());
}

Tensor images_of(const Batch& batch) { return rows_of(batch, &BatchPart::images); }

}  // namespace

void ReplicatedStep::feed(LoaderOptions& loader) {
  loader.lanes = parallel_.devices();
  loader.split = [this](int64_t n) { return parallel_.rows_by_device(n); };
}

bool ReplicatedStep::wanted(const Options& o) {
  return o.shards > 0 || parse_devices(o.devices).size() > 1;
}

ReplicatedStep::ReplicatedStep(const Options& options, Module& model, Optimizer& optimizer,
                               GradScaler* scaler)
    : options_(options),
      parallel_(
          model, [&options] { return make_model(options.model); }, parse_devices(options.devices),
          parallel_options(options)),
      optimizer_(parallel_, optimizer,
                 [&options](const Module& replica) { return make_optimizer(options, replica); }),
      scaler_(scaler) {}

StepResult ReplicatedStep::run(const Batch& batch, int64_t step, double lr_scale) {
  const PhaseSpan span(Phase::kCompute, "step of all replicas");
  parallel_.set_step(step);
  optimizer_.set_lr_scale(lr_scale);
  optimizer_.zero_grad();
  const auto loss = [this](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
  };
  const double scale = scaler_ != nullptr ? scaler_->get_scale() : 1.0;
  const DataParallel::Result result = parallel_.forward_backward(batch.parts, loss, scale);
  // With a scaler, what is not finite shows in the gradients.
  if (scaler_ == nullptr && !std::isfinite(result.loss))
    fail_step(step, describe_loss(result.loss), parallel_.module(), images_of(batch));
  const bool taken = update(batch, step);
  const Tensor right = count_equal(argmax(result.output, 1), rows_of(batch, &BatchPart::labels));
  return {.taken = taken, .loss = result.loss, .n_correct = static_cast<int64_t>(right.item())};
}

bool ReplicatedStep::update(const Batch& batch, int64_t step) {
  if (scaler_ != nullptr) {
    const bool taken = optimizer_.step(*scaler_, options_.clip_norm);
    scaler_->update();
    if (scaler_->stuck()) fail_where_stuck(*scaler_, step, parallel_.module(), images_of(batch));
    return taken;
  }
  if (options_.clip_norm > 0 && !std::isfinite(optimizer_.clip_grad_norm(options_.clip_norm)))
    fail_step(step, kGradients, parallel_.module(), images_of(batch));
  optimizer_.step();
  return true;
}

std::string ReplicatedStep::describe() const {
  return fmt::format("{} on {}; a batch in {} shards; exchange {}{}", parallel_.size(),
                     options_.devices, parallel_.shards(), exchange_kind_name(parallel_.exchange()),
                     options_.sync_batch_norm ? "; batch-norm synchronised" : "");
}

}  // namespace heddle::train_cifar
