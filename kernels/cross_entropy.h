#pragma once

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// What both directions are told. logits (rows, cols) row-major, labels (rows).
struct CrossEntropyProblem {
  DType dtype = DType::kFloat32;
  int64_t rows = 0, cols = 0;
  const void* logits = nullptr;
  const int64_t* labels = nullptr;
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};

/// losses[row] = -(1 - s) log_softmax(logits)[label] - s/cols * sum of log_softmax(logits), s the
/// smoothing; 0 where the label is ignore_index. loss = scale * the sum of losses, taken in float64
/// and fixed order, with scale = 1 / the labels that are not ignored where `mean` (and there is
/// one), else 1. `stats` keeps the row's maximum and log(sum e^(x - max)) for backward.
/// Errors: a label outside [0, cols) that is not ignore_index. The CPU throws, naming row and
/// value, and writes nothing. CUDA makes the row's loss NaN and reports it: see
/// core/device_fault.h.
struct CrossEntropyForwardArgs {
  CrossEntropyProblem problem;
  bool mean;
  void* losses;   // (rows), dtype; may be null
  void* stats;    // (rows, 2), float64 for float64, else float32
  void* loss;     // (), dtype; may be null
  double* scale;  // ()
};

/// dlogits = scale * dy[row] * (softmax - (1 - s) one_hot(label) - s/cols), exact zeros where the
/// label is ignored.
struct CrossEntropyBackwardArgs {
  CrossEntropyProblem problem;
  void* dlogits;        // (rows, cols)
  const void* stats;    // of the forward
  const double* scale;  // of the forward
  const void* dy;       // dtype, `dy_stride` elements apart: 0 for one gradient of all rows
  int64_t dy_stride;
};

namespace cpu {
void cross_entropy_forward(const CrossEntropyForwardArgs& args);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args);
}  // namespace cpu

namespace cuda {
void cross_entropy_forward(const CrossEntropyForwardArgs& args, StreamRef stream);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
