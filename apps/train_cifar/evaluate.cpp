#include "heddle/apps/train_cifar/evaluate.h"

#include <chrono>
#include <numeric>

#include "heddle/apps/train_cifar/signals.h"
#include "heddle/core/tape.h"
#include "heddle/core/trace.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {
namespace {

constexpr size_t kClasses = 10;

int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// By class, how many rows there are, and how many whose largest logit is the label's.
void count(const Tensor& logits, const Tensor& labels, Evaluation& into) {
  const std::vector<int64_t> predicted = argmax(logits, 1).to_vector<int64_t>();  // (n)
  const std::vector<int64_t> expected = labels.to_vector<int64_t>();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto label = static_cast<size_t>(expected[i]);
    ++into.total[label];
    if (predicted[i] == expected[i]) ++into.correct[label];
  }
}

}  // namespace

int64_t Evaluation::n_correct() const { return sum_of(correct); }
int64_t Evaluation::n_total() const { return sum_of(total); }
double Evaluation::accuracy() const {
  return static_cast<double>(n_correct()) / static_cast<double>(n_total());
}

Evaluation evaluate(Module& model, Loader& loader) {
  const auto start = std::chrono::steady_clock::now();
  const NoGradGuard no_grad;
  const TraceSpan span("evaluate", "step");
  const bool was_training = model.is_training();
  model.eval();
  Evaluation result;
  result.correct.resize(kClasses);
  result.total.resize(kClasses);
  double loss_sum = 0.0;
  loader.set_position({0, 0});
  for (const Batch& batch : loader) {
    if (interrupted()) break;
    const Tensor logits = model(batch.images);  // (n, 10)
    loss_sum += cross_entropy(logits, batch.labels, {.reduction = Reduction::kSum}).item();
    count(logits, batch.labels, result);
  }
  model.train(was_training);
  result.complete = result.n_total() == loader.n_samples();
  result.loss = loss_sum / static_cast<double>(result.n_total());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace heddle::train_cifar
