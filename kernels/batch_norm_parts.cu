// What the parts of a batch found out becomes the batch's, a thread for each channel (formulas:
// batch_norm_parts.h). A few kilobytes. Deterministic: float64, in the order of the parts.
#include "heddle/kernels/batch_norm_parts.h"

#include "heddle/kernels/device/batch_norm.cuh"

namespace heddle::cuda {
namespace {

/// parts (n_parts, 2, channels).
__global__ void batch_norm_merge_thread_per_channel_kernel(float* mean, float* var,
                                                           const float* parts,
                                                           BatchNormMergeArgs::Rows rows,
                                                           int n_parts, int64_t channels) {
  const int64_t channel = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (channel >= channels) return;
  Moments<double> total{0.0, 0.0, 0.0};
  for (int k = 0; k < n_parts; ++k) {
    const float* part = parts + 2 * k * channels + channel;
    const auto n = static_cast<double>(rows.of[k]);
    total =
        merged(total, {n, static_cast<double>(part[0]), static_cast<double>(part[channels]) * n});
  }
  mean[channel] = static_cast<float>(total.mean);
  var[channel] = total.n == 0.0 ? 0.0F : static_cast<float>(total.m2 / total.n);
}

/// parts (n_parts, size).
__global__ void batch_norm_add_thread_per_element_kernel(float* sums, const float* parts,
                                                         int n_parts, int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  if (i >= size) return;
  double sum = 0.0;
  for (int k = 0; k < n_parts; ++k) sum += static_cast<double>(parts[k * size + i]);
  sums[i] = static_cast<float>(sum);
}

}  // namespace

void batch_norm_merge(const BatchNormMergeArgs& args, StreamRef stream) {
  if (args.channels == 0) return;
  launch("batch_norm_merge", batch_norm_merge_thread_per_channel_kernel,
         {.grid = grid_for(args.channels, kColumnThreads), .block = kColumnThreads}, stream,
         static_cast<float*>(args.mean), static_cast<float*>(args.var),
         static_cast<const float*>(args.parts), args.rows, args.n_parts, args.channels);
}

void batch_norm_add(const BatchNormAddArgs& args, StreamRef stream) {
  if (args.size == 0) return;
  launch("batch_norm_add", batch_norm_add_thread_per_element_kernel,
         {.grid = grid_for(args.size, kColumnThreads), .block = kColumnThreads}, stream,
         static_cast<float*>(args.sums), static_cast<const float*>(args.parts), args.n_parts,
         args.size);
}

}  // namespace heddle::cuda
