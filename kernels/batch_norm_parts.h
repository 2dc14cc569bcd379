#pragma once

#include <cstdint>

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Mean and biased variance of a batch from those of its parts, merged in float64 in the order of
/// the parts (Chan, Golub & LeVeque 1983): what they are depends on the parts and on nothing else.
/// Per-channel arrays are float64 or float32, as `dtype` says.
struct BatchNormMergeArgs {
  static constexpr int kMaxParts = 256;
  struct Rows {
    int64_t of[kMaxParts] = {};
  };

  DType dtype = DType::kFloat32;
  int64_t channels = 0;
  int n_parts = 0;    // 0 to kMaxParts
  Rows rows;          // of each part
  const void* parts;  // (n_parts, 2, channels): mean and biased variance
  void* mean;         // (channels)
  void* var;          // (channels)
};

/// sums[i] = the sum over the parts of parts[k][i], added in float64 in their order.
struct BatchNormAddArgs {
  DType dtype = DType::kFloat32;
  int64_t size = 0;
  int n_parts = 0;
  const void* parts;  // (n_parts, size)
  void* sums;         // (size)
};

namespace cpu {
void batch_norm_merge(const BatchNormMergeArgs& args);
void batch_norm_add(const BatchNormAddArgs& args);
}  // namespace cpu

namespace cuda {
void batch_norm_merge(const BatchNormMergeArgs& args, StreamRef stream);
void batch_norm_add(const BatchNormAddArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
