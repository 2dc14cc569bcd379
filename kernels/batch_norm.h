#pragma once

#include <string>

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// y = (x - mean) * inv_std * weight + bias, then max(0, y) where `relu`. Arrays (rows, channels)
/// row-major: channels-last images or (N, C). Per-channel arrays are float64 for float64, else
/// float32.
struct BatchNormProblem {
  DType dtype = DType::kFloat32;
  int64_t rows = 0, channels = 0;
  const void* weight = nullptr;  // (channels), may be null: ones
  const void* bias = nullptr;    // (channels), may be null: zeros
  bool relu = false;

  std::string key() const;  ///< Names the sizes: for provider choices and messages.
};

/// Evaluation: applies given statistics; writes y and inv_std = 1 / sqrt(var + eps).
struct BatchNormInferenceArgs {
  BatchNormProblem problem;
  double eps = 1e-5;
  void* y;
  void* inv_std;
  const void* x;
  const void* mean;
  const void* var;

  std::string key() const;
};

/// Training: takes the statistics of x and applies them; writes y, mean, var (biased) and inv_std.
struct BatchNormForwardArgs {
  BatchNormProblem problem;
  double eps = 1e-5;
  void* y;
  void* mean;
  void* var;
  void* inv_std;
  const void* x;

  std::string key() const;
};

/// The statistics of x alone: mean and var (biased).
struct BatchNormStatisticsArgs {
  BatchNormProblem problem;
  void* mean;
  void* var;
  const void* x;
};

/// With x^ = (x - mean) * inv_std, and dy set to 0 where `relu` cut y off:
/// db = sum of dy, dw = sum of dy * x^, dx = weight * inv_std * (dy - (db + x^ * dw) / rows) in
/// training, weight * inv_std * dy where the statistics were given.
struct BatchNormBackwardArgs {
  BatchNormProblem problem;
  bool training = true;
  void* dx;  // may be null
  void* dw;  // (channels)
  void* db;  // (channels)
  const void* dy;
  const void* x;
  const void* mean;
  const void* inv_std;

  std::string key() const;
};

/// dx in training where x is a part of the batch: the sums db and dw, like mean and inv_std, are of
/// all its rows.
struct BatchNormBackwardDataArgs {
  BatchNormProblem problem;
  int64_t batch_rows;  // the divisor
  void* dx;
  const void* dw;  // (channels)
  const void* db;  // (channels)
  const void* dy;
  const void* x;
  const void* mean;
  const void* inv_std;
};

/// running = (1 - momentum) * running + momentum * new; the variance unbiased, rows / (rows - 1).
/// Running statistics have the dtype of the per-channel arrays.
struct BatchNormRunningArgs {
  BatchNormProblem problem;
  double momentum;
  void* running_mean;
  void* running_var;
  const void* mean;
  const void* var;  // biased
};

namespace cpu {
void batch_norm_inference(const BatchNormInferenceArgs& args);
void batch_norm_forward(const BatchNormForwardArgs& args);
void batch_norm_statistics(const BatchNormStatisticsArgs& args);
void batch_norm_backward(const BatchNormBackwardArgs& args);
void batch_norm_backward_data(const BatchNormBackwardDataArgs& args);
void batch_norm_move_running(const BatchNormRunningArgs& args);
}  // namespace cpu

namespace cuda {
void batch_norm_inference(const BatchNormInferenceArgs& args, StreamRef stream);
void batch_norm_forward(const BatchNormForwardArgs& args, StreamRef stream);
void batch_norm_statistics(const BatchNormStatisticsArgs& args, StreamRef stream);
void batch_norm_backward(const BatchNormBackwardArgs& args, StreamRef stream);
void batch_norm_backward_data(const BatchNormBackwardDataArgs& args, StreamRef stream);
void batch_norm_move_running(const BatchNormRunningArgs& args, StreamRef stream);
/// var (channels) = 1 / inv_std^2 - eps, for a library that keeps inv_std alone.
void batch_norm_variance(void* var, const void* inv_std, double eps, int64_t channels,
                         StreamRef stream);
}  // namespace cuda

/// cuDNN's versions, where their *_supports says that it can. Evaluation is native.
namespace cudnn {
bool batch_norm_forward_supports(const BatchNormForwardArgs& args, StreamRef stream);
bool batch_norm_backward_supports(const BatchNormBackwardArgs& args, StreamRef stream);
void batch_norm_forward(const BatchNormForwardArgs& args, StreamRef stream);
void batch_norm_backward(const BatchNormBackwardArgs& args, StreamRef stream);
}  // namespace cudnn

/// oneDNN's versions, where their *_supports says that it can.
namespace onednn {
bool batch_norm_inference_supports(const BatchNormInferenceArgs& args);
bool batch_norm_forward_supports(const BatchNormForwardArgs& args);
bool batch_norm_backward_supports(const BatchNormBackwardArgs& args);
void batch_norm_inference(const BatchNormInferenceArgs& args);
void batch_norm_forward(const BatchNormForwardArgs& args);
void batch_norm_backward(const BatchNormBackwardArgs& args);
}  // namespace onednn

}  // namespace heddle
