// The draws and labels of a batch out of a set. A thread takes a picture; integers alone, so the
// bits are the CPU's. The batch's labels are written side by side, the set's are read where they
// lie: a few KiB a batch, for which the launch is what takes time.
#include "heddle/kernels/augment_draws.h"

#include "heddle/kernels/device/launch.cuh"

namespace heddle {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    augment_draws_picture_per_thread_kernel(const AugmentDrawsArgs args) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.n) return;
  const int64_t index = args.indices[i];
  RngWords words{args.rng.after(index)};
  args.draws[i] = draw_augment(args.ranges, words);
  args.labels[i] = args.set_labels[index];
}

}  // namespace

void cuda::augment_draws(const AugmentDrawsArgs& args, StreamRef stream) {
  if (args.n == 0) return;
  launch("augment_draws_picture_per_thread_kernel", augment_draws_picture_per_thread_kernel,
         {.grid = grid_for(args.n, kThreads), .block = kThreads}, stream, args);
}

}  // namespace heddle
