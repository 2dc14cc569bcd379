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

/// What a graph takes of a batch: images and labels of each part with rows.
StepGraph::Tensors inputs_of(const Batch& batch) {
  StepGraph::Tensors inputs;
  for (const BatchPart& part : batch.parts)
    if (part.size() > 0) inputs.insert(inputs.end(), {part.images, part.labels});
  return inputs;
}

/// The batch's parts with `inputs` in their places.
std::vector<BatchPart> parts_of(const Batch& batch, const StepGraph::Tensors& inputs) {
  std::vector<BatchPart> parts = batch.parts;
  size_t next = 0;
  for (BatchPart& part : parts) {
    if (part.size() == 0) continue;
    part.images = inputs[next++];
    part.labels = inputs[next++];
  }
  return parts;
}

/// A shard's outputs of a graph: loss, predictions and labels.
constexpr size_t kOutputs = 3;

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
      scaler_(scaler) {
  if (uses_graph(options)) graph_.emplace(parallel_.devices());
}

LossFunction ReplicatedStep::loss_function() const {
  return [this](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
  };
}

StepResult ReplicatedStep::run(const Batch& batch, int64_t step, double lr_scale) {
  optimizer_.set_lr_scale(lr_scale);
  if (graph_ && batch.size() == options_.batch_size) return run_by_graph(batch, step);
  const PhaseSpan span(Phase::kCompute, "step of all replicas");
  parallel_.set_step(step);
  optimizer_.zero_grad();
  const DataParallel::Result result =
      parallel_.forward_backward(batch.parts, loss_function(), scaler_);
  // With a scaler, what is not finite shows in the gradients.
  if (scaler_ == nullptr && !std::isfinite(result.loss))
    fail_step(step, describe_loss(result.loss), parallel_.module(), images_of(batch));
  const bool taken = update(batch, step);
  const Tensor right = count_equal(argmax(result.output, 1), rows_of(batch, &BatchPart::labels));
  return {.taken = taken, .loss = result.loss, .n_correct = static_cast<int64_t>(right.item())};
}

StepResult ReplicatedStep::run_by_graph(const Batch& batch, int64_t step) {
  const PhaseSpan span(Phase::kCompute, "step of all replicas as a graph");
  optimizer_.begin_step(scaler_ != nullptr ? 1.0 / scaler_->get_scale() : 1.0);
  const StepGraph::Tensors outputs = queue_step(batch, step);
  StepResult result{.taken = optimizer_.finish_step()};
  for (size_t i = 0; i + kOutputs <= outputs.size(); i += kOutputs) {
    const Tensor &predicted = outputs[i + 1], &labels = outputs[i + 2];
    result.loss += outputs[i].item() * static_cast<double>(labels.size(0));
    result.n_correct += static_cast<int64_t>(count_equal(predicted, labels).item());
  }
  result.loss /= static_cast<double>(batch.size());
  if (scaler_ != nullptr) {
    scaler_->note_step(result.taken);
    scaler_->update();
    fail_where_stuck(*scaler_, step, parallel_.module(), images_of(batch));
  } else if (!result.taken) {
    const bool by_loss = !std::isfinite(result.loss);
    fail_step(step, by_loss ? describe_loss(result.loss) : kGradients, parallel_.module(),
              images_of(batch));
  }
  return result;
}

StepGraph::Tensors ReplicatedStep::queue_step(const Batch& batch, int64_t step) {
  try {
    const auto body = [&](const StepGraph::Tensors& inputs) {
      return whole_step(parts_of(batch, inputs), step);
    };
    return graph_->run(inputs_of(batch), body, step);
  } catch (const CaptureError& error) {
    if (options_.graph == "on") throw;
    if (!options_.quiet) fmt::print("note: {}; steps are called one by one\n", error.what());
  }
  graph_.reset();
  return whole_step(batch.parts, step);
}

StepGraph::Tensors ReplicatedStep::whole_step(const std::vector<BatchPart>& parts, int64_t step) {
  parallel_.set_step(step);
  optimizer_.zero_grad();
  const DataParallel::Queued queued =
      parallel_.queue_forward_backward(parts, loss_function(), scaler_);
  if (scaler_ == nullptr) optimizer_.check_losses(queued.mean_losses);
  if (scaler_ != nullptr || options_.clip_norm > 0) optimizer_.check_gradients(options_.clip_norm);
  optimizer_.apply_step();
  StepGraph::Tensors outputs;
  for (const DataParallel::Queued::Shard& shard : queued.shards)
    outputs.insert(outputs.end(), {shard.loss, argmax(shard.output, 1), shard.labels});
  return outputs;
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
