#pragma once

#include "heddle/core/dtype.h"
#include "heddle/kernels/no_cuda_kernel.h"

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
/// smoothing; 0 where the label is ignore_index. *sum = the sum of losses in float64 and fixed
/// order, on the op's device like all else. `stats` keeps the row's maximum and log(sum e^(x -
/// max)) for backward.
struct CrossEntropyForwardArgs {
  CrossEntropyProblem problem;
  void* losses;  // (rows), dtype; may be null
  void* stats;   // (rows, 2), float64 for float64, else float32
  double* sum;
};

/// dlogits = scale * dy[row] * (softmax - (1 - s) one_hot(label) - s/cols), exact zeros where the
/// label is ignored.
struct CrossEntropyBackwardArgs {
  CrossEntropyProblem problem;
  void* dlogits;      // (rows, cols)
  const void* stats;  // of the forward
  const void* dy;     // dtype, `dy_stride` elements apart: 0 for one gradient of all rows
  int64_t dy_stride;
  double scale;
};

/// counts[0] = the labels that are not ignored, counts[1] = the first row whose label is neither
/// ignore_index nor in [0, cols), or `rows` where there is none.
struct CountLabelsArgs {
  const int64_t* labels;  // (rows)
  int64_t rows, cols;
  int64_t ignore_index;
  int64_t* counts;  // (2)
};

namespace cpu {
void count_labels(const CountLabelsArgs& args);
/// Labels must have passed count_labels.
void cross_entropy_forward(const CrossEntropyForwardArgs& args);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args);
}  // namespace cpu

HEDDLE_NO_CUDA_KERNEL(count_labels, CountLabelsArgs)
HEDDLE_NO_CUDA_KERNEL(cross_entropy_forward, CrossEntropyForwardArgs)
HEDDLE_NO_CUDA_KERNEL(cross_entropy_backward, CrossEntropyBackwardArgs)

}  // namespace heddle
