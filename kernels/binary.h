#pragma once

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

enum class BinaryOp { kAdd, kMul, kDiv, kEq, kNe, kLt, kLe };

/// y = a op b, element by element; for kAdd y = a + alpha * b, for kMul y = a * alpha * b. Shapes
/// are equal (strides 0 along broadcast dimensions of a and b), a and b have one dtype; y has it
/// too, or uint8 for comparisons. y may be a or b itself (same memory, same strides). Division is
/// for floating dtypes.
struct BinaryArgs {
  View y;
  View a;
  View b;
  BinaryOp op;
  double alpha = 1.0;
};

namespace cpu {
void binary(const BinaryArgs& args);
}  // namespace cpu

namespace cuda {
void binary(const BinaryArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
