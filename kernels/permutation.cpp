#include "heddle/kernels/permutation.h"

#include <algorithm>

namespace heddle {

void cpu::permutation(const PermutationArgs& args) {
  std::ranges::copy(heddle::permutation(args.rng, args.n), args.order);
}

}  // namespace heddle
