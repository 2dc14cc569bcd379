// y = x0 + x1 + ... as a tree over the inputs. One read of each input and one write. Deterministic.
#include "heddle/kernels/tree_sum.h"

#include <algorithm>

#include "heddle/kernels/host/parallel_for.h"

namespace heddle {
namespace {

constexpr int64_t kTile = 256;       // elements whose partial sums stay in the nearest cache
constexpr int64_t kGrain = 1 << 14;  // elements of a piece

void sum_tile(const TreeSumArgs& args, int64_t first, int64_t n) {
  float partial[TreeSumArgs::kMaxInputs][kTile];
  for (int k = 0; k < args.n_inputs; ++k) std::copy_n(args.x[k] + first, n, partial[k]);
  for (int step = 1; step < args.n_inputs; step *= 2)
    for (int k = 0; k + step < args.n_inputs; k += 2 * step)
      for (int64_t i = 0; i < n; ++i) partial[k][i] += partial[k + step][i];
  std::copy_n(partial[0], n, args.y + first);
}

}  // namespace

void cpu::tree_sum(const TreeSumArgs& args) {
  parallel_ranges(args.n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kTile)
      sum_tile(args, first, std::min(kTile, end - first));
  });
}

}  // namespace heddle
