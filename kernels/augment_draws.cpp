// The draws and labels of a batch out of a set, one picture after the other: an integer function of
// the stream, so the bits of every device.
#include "heddle/kernels/augment_draws.h"

namespace heddle {

void cpu::augment_draws(const AugmentDrawsArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const int64_t index = args.indices[i];
    RngWords words{args.rng.after(index)};
    args.draws[i] = draw_augment(args.ranges, words);
    args.labels[i] = args.set_labels[index];
  }
}

}  // namespace heddle
