#include "heddle/apps/train_cifar/step_runner.h"

#include <algorithm>
#include <cmath>

#include "heddle/apps/train_cifar/finite.h"
#include "heddle/core/phase.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {

StepRunner::StepRunner(const Options& options, Module& model, Optimizer& optimizer)
    : options_(options), model_(model), optimizer_(optimizer) {
  if (options.precision == "fp16") scaler_.emplace();
}

StepResult StepRunner::run(const Batch& batch, int64_t step) {
  model_.set_step(step);
  optimizer_.zero_grad();
  const std::vector<Part> parts = forward_backward(batch, step);
  const bool taken = update();
  if (scaler_) fail_where_stuck(*scaler_, step, model_, batch.images);
  return read(parts, taken);
}

std::vector<StepRunner::Part> StepRunner::forward_backward(const Batch& batch, int64_t step) {
  const PhaseSpan span(Phase::kCompute, "forward and backward");
  const int64_t n = batch.size();
  const int64_t n_parts = std::min(options_.accumulate, n);
  std::vector<Part> parts;
  for (int64_t part = 0; part < n_parts; ++part) {
    const int64_t begin = n * part / n_parts, size = n * (part + 1) / n_parts - begin;
    const Tensor images = n_parts == 1 ? batch.images : narrow(batch.images, 0, begin, size);
    const Tensor labels = n_parts == 1 ? batch.labels : narrow(batch.labels, 0, begin, size);
    const Tensor logits = model_(images);  // (size, 10)
    const Tensor loss =
        cross_entropy(logits, labels, {.label_smoothing = options_.label_smoothing});
    parts.push_back({loss.detach(), argmax(logits.detach(), 1), labels});
    // With a scaler, what is not finite shows in the gradients.
    if (!scaler_ && !std::isfinite(loss.item()))
      fail_step(step, describe_loss(loss.item()), model_, images);
    const double share = static_cast<double>(size) / static_cast<double>(n);
    const Tensor weighed = n_parts == 1 ? loss : loss * share;
    (scaler_ ? scaler_->scale(weighed) : weighed).backward();
  }
  return parts;
}

bool StepRunner::update() {
  const PhaseSpan span(Phase::kUpdate, "update");
  if (scaler_) {
    const bool taken = scaler_->step(optimizer_, options_.clip_norm);
    scaler_->update();
    return taken;
  }
  if (options_.clip_norm > 0) optimizer_.clip_grad_norm(options_.clip_norm);
  optimizer_.step();
  return true;
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

}  // namespace heddle::train_cifar
