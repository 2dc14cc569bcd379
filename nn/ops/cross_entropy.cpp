#include "heddle/kernels/cross_entropy.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
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

Tensor cross_entropy_backward(const Tensor& dy, const Tensor& logits, const Tensor& labels,
                              const Tensor& stats, const Tensor& scale,
                              const CrossEntropyOptions& options) {
  Tensor dlogits = Tensor::empty_like(logits);
  HEDDLE_DISPATCH(logits.device(), cross_entropy_backward,
                  {problem_of(logits, labels, options), dlogits.raw_data(), stats.raw_data(),
                   scale.data<double>(), dy.raw_data(), dy.dim() == 1 ? dy.strides()[0] : 0});
  return dlogits;
}

}  // namespace

Tensor cross_entropy(const Tensor& given, const Tensor& input_labels,
                     const CrossEntropyOptions& options) {
  const Tensor input = autocast_to_float32(given);
  check_arguments(input, input_labels, options);
  const Tensor logits = dense(input, MemoryFormat::kContiguous);
  const Tensor labels = dense(input_labels, MemoryFormat::kContiguous);
  const auto empty = [device = logits.device()](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, MemoryFormat::kContiguous, device);
  };
  const bool each = options.reduction == Reduction::kNone;
  Tensor loss = empty(each ? Shape{logits.size(0)} : Shape{}, logits.dtype());
  const Tensor stats = empty({logits.size(0), 2},
                             logits.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
  const Tensor scale = empty({}, DType::kFloat64);
  HEDDLE_DISPATCH(logits.device(), cross_entropy_forward,
                  {problem_of(logits, labels, options), options.reduction == Reduction::kMean,
                   each ? loss.raw_data() : nullptr, stats.raw_data(),
                   each ? nullptr : loss.raw_data(), scale.data<double>()});
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
