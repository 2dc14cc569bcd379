#pragma once

#include <cstdint>

#include "heddle/core/stream.h"

namespace heddle {

/// y[i] = the sum over k of x[k][i], added as a tree over k: ((0+1)+(2+3))+((4+5)+6). What it is
/// depends on the order of the x and on nothing else. y may be one of the x.
struct TreeSumArgs {
  static constexpr int kMaxInputs = 16;
  const float* x[kMaxInputs];  // each (n)
  int n_inputs;                // 1 to kMaxInputs
  float* y;                    // (n)
  int64_t n;
};

namespace cpu {
void tree_sum(const TreeSumArgs& args);
}  // namespace cpu

namespace cuda {
void tree_sum(const TreeSumArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
