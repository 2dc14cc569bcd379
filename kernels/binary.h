#pragma once

#include "heddle/core/view.h"
#include "heddle/kernels/no_cuda_kernel.h"

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

HEDDLE_NO_CUDA_KERNEL(binary, BinaryArgs)

}  // namespace heddle
