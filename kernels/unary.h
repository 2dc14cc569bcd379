#pragma once

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

enum class UnaryOp { kRelu, kGelu, kNeg, kExp, kLog, kSqrt, kTanh, kSigmoid };

/// y = f(x), dense storage of the same order on both sides.
struct UnaryArgs {
  void* y;
  const void* x;
  int64_t n;
  DType dtype;
  UnaryOp op;
};

/// dx = dy * f'(x), where f' is computed from `saved`: the result y for relu, exp, sqrt, tanh and
/// sigmoid, the input x for the others (see saves_result).
struct UnaryBackwardArgs {
  void* dx;
  const void* dy;
  const void* saved;
  int64_t n;
  DType dtype;
  UnaryOp op;
};

bool saves_result(UnaryOp op);

namespace cpu {
void unary_forward(const UnaryArgs& args);
void unary_backward(const UnaryBackwardArgs& args);
}  // namespace cpu

namespace cuda {
void unary_forward(const UnaryArgs& args, StreamRef stream);
void unary_backward(const UnaryBackwardArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
