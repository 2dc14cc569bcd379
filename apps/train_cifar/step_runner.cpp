#include "heddle/apps/train_cifar/step_runner.h"

#include <algorithm>
#include <cmath>

#include "heddle/apps/train_cifar/finite.h"
#include "heddle/core/phase.h"
#include "heddle/core/split.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {
namespace {

/// n samples in at most `most` parts, as even as they can be.
std::vector<Range> cut(int64_t n, int64_t most) {
  const int64_t n_parts = std::min(most, n);
  std::vector<Range> parts;
  for (int64_t part = 0; part < n_parts; ++part) {
    const int64_t begin = n * part / n_parts;
    parts.push_back({begin, n * (part + 1) / n_parts - begin});
  }
  return parts;
}

}  // namespace

StepRunner::StepRunner(const Options& options, Module& model, Optimizer& optimizer)
    : options_(options), model_(model), optimizer_(optimizer) {
  if (options.precision == "fp16") scaler_.emplace();
  if (uses_graph(options)) graph_.emplace(device_of(options));
}

StepRunner::~StepRunner() {
  if (graph_) optimizer_.zero_grad();  // they lie in the graph's memory
}

StepResult StepRunner::run(const Batch& batch, int64_t step, double lr_scale) {
  optimizer_.set_lr_scale(lr_scale);
  if (graph_ && batch.size() == options_.batch_size) return run_by_graph(batch, step);
  model_.set_step(step);
  optimizer_.zero_grad();
  const auto check = [&](const Tensor& images, const Tensor& loss) {
    const double value = loss.item();
    if (!std::isfinite(value)) fail_step(step, describe_loss(value), model_, images);
  };
  const std::vector<Part> parts = [&] {
    const PhaseSpan span(Phase::kCompute, "forward and backward");
    return forward_backward(batch.images, batch.labels, check);
  }();
  const bool taken = update(batch.images, step);
  return read(parts, taken);
}

std::vector<StepRunner::Part> StepRunner::forward_backward(const Tensor& all_images,
                                                           const Tensor& all_labels,
                                                           const LossCheck& check) {
  const int64_t n = all_images.size(0);
  std::vector<Part> parts;
  for (const auto& [begin, size] : cut(n, options_.accumulate)) {
    const bool whole = size == n;
    const Tensor images = whole ? all_images : narrow(all_images, 0, begin, size);
    const Tensor labels = whole ? all_labels : narrow(all_labels, 0, begin, size);
    const Tensor logits = model_(images);  // (size, 10)
    const Tensor loss =
        cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
    parts.push_back({loss.detach(), argmax(logits.detach(), 1), labels});
    // With a scaler, what is not finite shows in the gradients.
    if (!scaler_) check(images, parts.back().loss);
    const double share = static_cast<double>(size) / static_cast<double>(n);
    const Tensor weighed = whole ? loss : loss * share;
    (scaler_ ? scaler_->scale(weighed) : weighed).backward();
  }
  return parts;
}

bool StepRunner::update(const Tensor& images, int64_t step) {
  const PhaseSpan span(Phase::kUpdate, "update");
  if (scaler_) {
    const bool taken = scaler_->step(optimizer_, options_.clip_norm);
    scaler_->update();
    fail_where_stuck(*scaler_, step, model_, images);
    return taken;
  }
  if (options_.clip_norm > 0 && !std::isfinite(optimizer_.clip_grad_norm(options_.clip_norm)))
    fail_step(step, kGradients, model_, images);
  optimizer_.step();
  return true;
}

StepResult StepRunner::run_by_graph(const Batch& batch, int64_t step) {
  const PhaseSpan span(Phase::kCompute, "step as a graph");
  optimizer_.begin_step(scaler_ ? 1.0 / scaler_->get_scale() : 1.0);
  const StepGraph::Tensors outputs = queue_step(batch, step);
  std::vector<Part> parts;
  for (size_t i = 0; i + 2 < outputs.size(); i += 3)
    parts.push_back({outputs[i], outputs[i + 1], outputs[i + 2]});
  const bool taken = optimizer_.finish_step();
  if (scaler_) {
    scaler_->note_step(taken);
    scaler_->update();
    fail_where_stuck(*scaler_, step, model_, batch.images);
  } else if (!taken) {
    explain_refusal(batch, parts, step);
  }
  return read(parts, taken);
}

StepGraph::Tensors StepRunner::queue_step(const Batch& batch, int64_t step) {
  const auto body = [&](const StepGraph::Tensors& inputs) {
    return whole_step(inputs[0], inputs[1], step);
  };
  const StepGraph::Tensors inputs{batch.images, batch.labels};
  try {
    return graph_->run(inputs, body, step);
  } catch (const CaptureError& error) {
    if (options_.graph == "on") throw;
    if (!options_.quiet) fmt::print("note: {}; steps are called one by one\n", error.what());
  }
  optimizer_.zero_grad();  // they lie in the graph's memory
  graph_.reset();
  return body(inputs);
}

/// All that a graph holds of a step: loss, predictions and labels of each part.
StepGraph::Tensors StepRunner::whole_step(const Tensor& images, const Tensor& labels,
                                          int64_t step) {
  model_.set_step(step);
  optimizer_.zero_grad();
  const auto check = [&](const Tensor&, const Tensor& loss) { optimizer_.check_loss(loss); };
  StepGraph::Tensors outputs;
  for (const Part& part : forward_backward(images, labels, check))
    outputs.insert(outputs.end(), {part.loss, part.predicted, part.labels});
  if (scaler_ || options_.clip_norm > 0) optimizer_.check_gradients(options_.clip_norm);
  optimizer_.apply_step();
  return outputs;
}

StepResult StepRunner::read(const std::vector<Part>& parts, bool taken) const {
  StepResult result{.taken = taken};
  int64_t n = 0;
  for (const Part& part : parts) {
    result.n_correct += static_cast<int64_t>(count_equal(part.predicted, part.labels).item());
    const int64_t size = part.labels.size(0);
    result.loss += part.loss.item() * static_cast<double>(size);
    n += size;
  }
  result.loss /= static_cast<double>(n);
  return result;
}

/// Of a step that the device did not take: the first part whose loss is not finite, else the
/// gradients.
void StepRunner::explain_refusal(const Batch& batch, const std::vector<Part>& parts, int64_t step) {
  int64_t begin = 0;
  for (const Part& part : parts) {
    const int64_t size = part.labels.size(0);
    const double loss = part.loss.item();
    if (!std::isfinite(loss))
      fail_step(step, describe_loss(loss), model_, narrow(batch.images, 0, begin, size));
    begin += size;
  }
  fail_step(step, kGradients, model_, batch.images);
}

}  // namespace heddle::train_cifar
