#pragma once

#include "heddle/core/rng.h"
#include "heddle/core/stream.h"

namespace heddle {

/// order = 0 .. n-1 by ascending permutation_key(rng, i), equal ones by i: heddle::permutation.
struct PermutationArgs {
  int64_t* order;  // (n)
  int64_t n;
  Rng rng;
};

namespace cpu {
void permutation(const PermutationArgs& args);
}  // namespace cpu

namespace cuda {
void permutation(const PermutationArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
