#pragma once

#include <string>

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// y = x - log(sum of e^x) over each row. Arrays (rows, cols), row-major.
struct LogSoftmaxArgs {
  void* y;
  const void* x;
  int64_t rows, cols;
  DType dtype;

  std::string key() const;
};

/// dx = dy - e^y * (sum of dy over the row).
struct LogSoftmaxBackwardArgs {
  void* dx;
  const void* dy;
  const void* y;
  int64_t rows, cols;
  DType dtype;

  std::string key() const;
};

namespace cpu {
void log_softmax_forward(const LogSoftmaxArgs& args);
void log_softmax_backward(const LogSoftmaxBackwardArgs& args);
}  // namespace cpu

namespace cuda {
void log_softmax_forward(const LogSoftmaxArgs& args, StreamRef stream);
void log_softmax_backward(const LogSoftmaxBackwardArgs& args, StreamRef stream);
}  // namespace cuda

namespace cudnn {
void log_softmax_forward(const LogSoftmaxArgs& args, StreamRef stream);
void log_softmax_backward(const LogSoftmaxBackwardArgs& args, StreamRef stream);
bool log_softmax_forward_supports(const LogSoftmaxArgs& args, StreamRef stream);
bool log_softmax_backward_supports(const LogSoftmaxBackwardArgs& args, StreamRef stream);
}  // namespace cudnn

}  // namespace heddle
