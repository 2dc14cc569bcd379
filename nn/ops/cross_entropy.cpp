#include "heddle/kernels/cross_entropy.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

void check_arguments(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options) {
  HEDDLE_CHECK(is_floating(logits.dtype()), "cross_entropy: logits are {}, expected floating",
               logits.dtype());
  HEDDLE_CHECK(labels.dtype() == DType::kInt64, "cross_entropy: labels are {}, expected int64",
               labels.dtype());
  HEDDLE_CHECK(logits.dim() == 2 && logits.size(1) > 0,
               "cross_entropy: logits are {}, expected (rows, classes) with at least one class",
               logits.shape());
  HEDDLE_CHECK(labels.dim() == 1 && labels.size(0) == logits.size(0),
               "cross_entropy: labels are {}, expected ({}) for logits {}", labels.shape(),
               logits.size(0), logits.shape());
  HEDDLE_CHECK(labels.device() == logits.device(),
               "cross_entropy: logits are on {}, labels on {}, expected one device",
               logits.device().to_string(), labels.device().to_string());
  HEDDLE_CHECK(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0,
               "cross_entropy: label_smoothing is {}, expected 0 to 1", options.label_smoothing);
  HEDDLE_CHECK(options.reduction != Reduction::kMean || logits.size(0) > 0,
               "cross_entropy: the mean over no rows is undefined, logits are {}", logits.shape());
}

CrossEntropyProblem problem_of(const Tensor& logits, const Tensor& labels,
                               const CrossEntropyOptions& options) {
  return {logits.dtype(),         logits.size(0),       logits.size(1),         logits.raw_data(),
          labels.data<int64_t>(), options.ignore_index, options.label_smoothing};
}

/// The labels that count. Errors: the first that is no class.
int64_t count_labels(const Tensor& labels, int64_t cols, int64_t ignore_index) {
  const int64_t rows = labels.size(0);
  const Tensor counts =
      Tensor::empty({2}, DType::kInt64, MemoryFormat::kContiguous, labels.device());
  HEDDLE_DISPATCH(labels.device(), count_labels,
                  {labels.data<int64_t>(), rows, cols, ignore_index, counts.data<int64_t>()});
  const std::vector<int64_t> found = counts.to_vector<int64_t>();
  if (found[1] < rows)
    fail("cross_entropy: label in row {} is {:.0f}, expected 0 to {} or ignore_index {}", found[1],
         labels.at({found[1]}), cols - 1, ignore_index);
  return found[0];
}

Tensor cross_entropy_backward(const Tensor& dy, const Tensor& logits, const Tensor& labels,
                              const Tensor& stats, double scale,
                              const CrossEntropyOptions& options) {
  Tensor dlogits = Tensor::empty_like(logits);
  HEDDLE_DISPATCH(logits.device(), cross_entropy_backward,
                  {problem_of(logits, labels, options), dlogits.raw_data(), stats.raw_data(),
                   dy.raw_data(), dy.dim() == 1 ? dy.strides()[0] : 0, scale});
  return dlogits;
}

}  // namespace

Tensor cross_entropy(const Tensor& input, const Tensor& input_labels,
                     const CrossEntropyOptions& options) {
  check_arguments(input, input_labels, options);
  const Tensor logits = dense(input, MemoryFormat::kContiguous);
  const Tensor labels = dense(input_labels, MemoryFormat::kContiguous);
  const int64_t count = count_labels(labels, logits.size(1), options.ignore_index);
  const double scale =
      options.reduction == Reduction::kMean && count > 0 ? 1.0 / static_cast<double>(count) : 1.0;

  const bool each = options.reduction == Reduction::kNone;
  Tensor losses = each ? Tensor::empty({logits.size(0)}, logits.dtype()) : Tensor();
  const DType stats_dtype = logits.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Tensor stats = Tensor::empty({logits.size(0), 2}, stats_dtype);
  Tensor sum = Tensor::empty({}, DType::kFloat64, MemoryFormat::kContiguous, logits.device());
  HEDDLE_DISPATCH(logits.device(), cross_entropy_forward,
                  {problem_of(logits, labels, options), each ? losses.raw_data() : nullptr,
                   stats.raw_data(), sum.data<double>()});
  Tensor loss = losses;
  if (!each) {
    if (scale != 1.0) mul_(sum, scale);
    loss = to(sum, logits.dtype());
  }
  if (needs_grad({input})) {
    record("cross_entropy", loss, {input},
           [saved_logits = SavedTensor(logits), saved_labels = SavedTensor(labels), stats, scale,
            options](const Tensor& dy) {
             return Gradients{cross_entropy_backward(dy, saved_logits.get(), saved_labels.get(),
                                                     stats, scale, options)};
           });
  }
  return loss;
}

}  // namespace heddle
