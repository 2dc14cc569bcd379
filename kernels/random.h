#pragma once

#include "heddle/core/rng.h"
#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

enum class Distribution { kUniform, kNormal };

/// y[i] = shift + scale * draw i of `rng`: uniform in [0, 1) (word i of the stream), or standard
/// normal (words 2i and 2i + 1). y is contiguous and floating; draws are float32, rounded once.
struct RandomArgs {
  View y;
  Rng rng;
  Distribution distribution;
  double shift;
  double scale;
};

namespace cpu {
void random(const RandomArgs& args);
}  // namespace cpu

namespace cuda {
void random(const RandomArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
