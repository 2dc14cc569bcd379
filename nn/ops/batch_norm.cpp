#include "heddle/kernels/batch_norm.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

#include "heddle/core/tape.h"
#include "heddle/kernels/batch_norm_parts.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"
#include "heddle/nn/ops/whole_batch.h"

namespace heddle {
namespace {

/// What backward needs, beside the options.
struct Saved {
  SavedTensor x, weight, bias, mean, inv_std;
  bool relu = false;
  bool training = true;
  bool wants_dx = true;
  int64_t batch_rows = 0;  // where x is a part of a batch; else 0
};

DType channel_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

const void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw_data() : nullptr;
}

void check_channels(const char* name, const Tensor& tensor, const Tensor& x) {
  HEDDLE_CHECK(!tensor.defined() || (tensor.dim() == 1 && tensor.size(0) == x.size(1)),
               "batch_norm: {} is {}, expected ({}) for x {}", name, tensor.shape(), x.size(1),
               x.shape());
  HEDDLE_CHECK(!tensor.defined() || is_floating(tensor.dtype()),
               "batch_norm: {} is {}, expected a floating dtype", name, tensor.dtype());
  HEDDLE_CHECK(!tensor.defined() || tensor.device() == x.device(),
               "batch_norm: {} is on {}, x on {}, expected one device", name,
               tensor.device().to_string(), x.device().to_string());
}

void check_running(const char* name, const Tensor& running, const Tensor& x) {
  check_channels(name, running, x);
  HEDDLE_CHECK(!running.defined() ||
                   (running.dtype() == channel_dtype(x.dtype()) && running.is_contiguous()),
               "batch_norm: {} is {}, expected contiguous {} for x of {}", name, running.dtype(),
               channel_dtype(x.dtype()), x.dtype());
}

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var,
                     const BatchNormOptions& options) {
  HEDDLE_CHECK(is_floating(x.dtype()), "batch_norm: x is {}, expected a floating dtype", x.dtype());
  HEDDLE_CHECK(x.dim() == 2 || x.dim() == 4, "batch_norm: x is {}, expected (N, C) or (N, C, H, W)",
               x.shape());
  check_channels("weight", weight, x);
  check_channels("bias", bias, x);
  check_running("running_mean", running_mean, x);
  check_running("running_var", running_var, x);
  HEDDLE_CHECK(
      running_mean.defined() == running_var.defined(),
      "batch_norm: one of running_mean and running_var is undefined, expected both or none");
  HEDDLE_CHECK(options.eps >= 0.0 && options.momentum >= 0.0 && options.momentum <= 1.0,
               "batch_norm: eps is {} and momentum {}, expected eps >= 0 and momentum 0 to 1",
               options.eps, options.momentum);
}

/// Contiguous and in the dtype of per-channel arrays; not recorded.
Tensor channel_array(const Tensor& tensor, DType dtype) {
  if (!tensor.defined()) return tensor;
  const NoGradGuard no_grad;
  return dense(to(tensor.detach(), dtype), MemoryFormat::kContiguous);
}

BatchNormProblem problem_of(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  const int64_t channels = x.size(1);
  return {x.dtype(),          channels == 0 ? 0 : x.numel() / channels,
          channels,           data_or_null(weight),
          data_or_null(bias), relu};
}

int total_parts(const WholeBatch::Parts& parts) {
  const auto n = static_cast<int64_t>(parts.rows.size());
  HEDDLE_CHECK(n <= BatchNormMergeArgs::kMaxParts,
               "batch_norm: a batch of {} parts, expected at most {}", n,
               BatchNormMergeArgs::kMaxParts);
  return static_cast<int>(n);
}

/// dx where x is a part of the batch; dw and db are of this part.
void backward_data_of_part(const Saved& saved, const BatchNormBackwardArgs& args, void* dx,
                           const Tensor& dw, const Tensor& db) {
  WholeBatch* const whole = WholeBatch::current();
  HEDDLE_CHECK(whole != nullptr,
               "batch_norm: its statistics are of a whole batch, expected that all parts of it go "
               "backward together");
  const WholeBatch::Parts parts = whole->collect(dw, db, args.problem.rows);
  const Tensor sums =
      Tensor::empty({2, dw.numel()}, dw.dtype(), MemoryFormat::kContiguous, dw.device());
  HEDDLE_DISPATCH(
      dw.device(), batch_norm_add,
      {dw.dtype(), 2 * dw.numel(), total_parts(parts), parts.values.raw_data(), sums.raw_data()});
  const auto* first = static_cast<const std::byte*>(sums.raw_data());
  HEDDLE_DISPATCH(
      dw.device(), batch_norm_backward_data,
      {args.problem, saved.batch_rows, dx, first, first + dw.numel() * size_of(dw.dtype()), args.dy,
       args.x, args.mean, args.inv_std});
}

Gradients batch_norm_backward(const Saved& saved, const Tensor& incoming, DType weight_dtype,
                              DType bias_dtype) {
  const Tensor x = saved.x.get(), weight = saved.weight.get(), bias = saved.bias.get();
  const Tensor mean = saved.mean.get(), inv_std = saved.inv_std.get();
  const Tensor dy = in_layout_of(x, incoming);
  Tensor dx = saved.wants_dx ? Tensor::empty_like(x) : Tensor();
  const Tensor dw = Tensor::empty_like(mean), db = Tensor::empty_like(mean);
  const bool in_parts = saved.batch_rows > 0;
  const BatchNormBackwardArgs args{problem_of(x, weight, bias, saved.relu),
                                   saved.training,
                                   saved.wants_dx && !in_parts ? dx.raw_data() : nullptr,
                                   dw.raw_data(),
                                   db.raw_data(),
                                   dy.raw_data(),
                                   x.raw_data(),
                                   mean.raw_data(),
                                   inv_std.raw_data()};
  HEDDLE_DISPATCH_VENDORS(x.device(), batch_norm_backward, args, cudnn);
  if (in_parts && saved.wants_dx) backward_data_of_part(saved, args, dx.raw_data(), dw, db);
  return {dx, weight.defined() ? to(dw, weight_dtype) : Tensor(),
          bias.defined() ? to(db, bias_dtype) : Tensor()};
}

/// `problem` has the rows that the statistics are of.
void move_running(const BatchNormProblem& problem, double momentum, Tensor& running_mean,
                  Tensor& running_var, const Tensor& mean, const Tensor& var) {
  if (!running_mean.defined() || problem.rows <= 1) return;
  HEDDLE_DISPATCH(running_mean.device(), batch_norm_move_running,
                  {problem, momentum, running_mean.raw_data(), running_var.raw_data(),
                   mean.raw_data(), var.raw_data()});
  running_mean.bump_version();
  running_var.bump_version();
}

/// y, and mean and inv_std of the batch; moves the running statistics.
Tensor normalise_batch(const Tensor& x, const BatchNormProblem& problem,
                       const BatchNormOptions& options, Tensor& mean, Tensor& inv_std,
                       Tensor& running_mean, Tensor& running_var) {
  Tensor y = Tensor::empty_like(x);
  const Tensor var = Tensor::empty_like(mean);
  const BatchNormForwardArgs args{problem,        options.eps,        y.raw_data(), mean.raw_data(),
                                  var.raw_data(), inv_std.raw_data(), x.raw_data()};
  HEDDLE_DISPATCH_VENDORS(x.device(), batch_norm_forward, args, cudnn);
  if (options.training)
    move_running(problem, options.momentum, running_mean, running_var, mean, var);
  return y;
}

/// y, and inv_std from the running statistics.
Tensor normalise_by_running(const Tensor& x, const BatchNormProblem& problem, double eps,
                            const Tensor& mean, Tensor& inv_std, const Tensor& running_var) {
  Tensor y = Tensor::empty_like(x);
  const BatchNormInferenceArgs args{problem,
                                    eps,
                                    y.raw_data(),
                                    inv_std.raw_data(),
                                    x.raw_data(),
                                    mean.raw_data(),
                                    running_var.raw_data()};
  HEDDLE_DISPATCH_VENDOR(x.device(), batch_norm_inference, args);
  return y;
}

/// The same where x is a part of a batch; returns the batch's rows too. One part moves the running
/// statistics, on behalf of all that have the same.
std::pair<Tensor, int64_t> normalise_part(WholeBatch& whole, const Tensor& x,
                                          const BatchNormProblem& problem,
                                          const BatchNormOptions& options, Tensor& mean,
                                          Tensor& inv_std, Tensor& running_mean,
                                          Tensor& running_var) {
  const Tensor part_mean = Tensor::empty_like(mean), part_var = Tensor::empty_like(mean);
  HEDDLE_DISPATCH(x.device(), batch_norm_statistics,
                  {problem, part_mean.raw_data(), part_var.raw_data(), x.raw_data()});
  const WholeBatch::Parts parts = whole.collect(part_mean, part_var, problem.rows);
  BatchNormProblem batch = problem;
  batch.rows = std::accumulate(parts.rows.begin(), parts.rows.end(), int64_t{0});
  HEDDLE_CHECK(batch.rows != 1,
               "batch_norm: x is {} and the only part of its batch, one value for each channel; "
               "training needs at least two",
               x.shape());
  const Tensor var = Tensor::empty_like(mean);
  BatchNormMergeArgs merge{
      mean.dtype(),    problem.channels, total_parts(parts), {}, parts.values.raw_data(),
      mean.raw_data(), var.raw_data()};
  std::copy(parts.rows.begin(), parts.rows.end(), merge.rows.of);
  HEDDLE_DISPATCH(x.device(), batch_norm_merge, merge);
  if (whole.leads()) move_running(batch, options.momentum, running_mean, running_var, mean, var);
  return {normalise_by_running(x, problem, options.eps, mean, inv_std, var), batch.rows};
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& input_weight, const Tensor& input_bias,
                  Tensor& running_mean, Tensor& running_var, const BatchNormOptions& options) {
  check_arguments(input, input_weight, input_bias, running_mean, running_var, options);
  const bool by_batch = options.training || !running_mean.defined();
  const Tensor x =
      dense(input, input.dim() == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
  const DType dtype = channel_dtype(x.dtype());
  const Tensor weight = channel_array(input_weight, dtype), bias = channel_array(input_bias, dtype);
  const BatchNormProblem problem = problem_of(x, weight, bias, options.fuse_relu);
  WholeBatch* const whole = options.training ? WholeBatch::current() : nullptr;
  HEDDLE_CHECK(!by_batch || whole != nullptr || problem.rows != 1,
               "batch_norm: x is {}, one value for each channel; training needs at least two",
               x.shape());
  Tensor mean =
      by_batch ? Tensor::empty({problem.channels}, dtype, MemoryFormat::kContiguous, x.device())
               : clone(running_mean.detach());
  Tensor inv_std = Tensor::empty_like(mean);
  Tensor y;
  int64_t batch_rows = 0;
  if (whole != nullptr) {
    std::tie(y, batch_rows) =
        normalise_part(*whole, x, problem, options, mean, inv_std, running_mean, running_var);
  } else if (by_batch) {
    y = normalise_batch(x, problem, options, mean, inv_std, running_mean, running_var);
  } else {
    y = normalise_by_running(x, problem, options.eps, mean, inv_std, running_var);
  }
  if (needs_grad({input, input_weight, input_bias})) {
    Saved saved{SavedTensor(x),    SavedTensor(weight),   SavedTensor(bias),
                SavedTensor(mean), SavedTensor(inv_std),  options.fuse_relu,
                by_batch,          input.requires_grad(), batch_rows};
    const DType weight_dtype = input_weight.defined() ? input_weight.dtype() : dtype;
    const DType bias_dtype = input_bias.defined() ? input_bias.dtype() : dtype;
    record("batch_norm", y, {input, input_weight, input_bias},
           [saved = std::move(saved), weight_dtype, bias_dtype](const Tensor& dy) {
             return batch_norm_backward(saved, dy, weight_dtype, bias_dtype);
           });
  }
  return y;
}

}  // namespace heddle
