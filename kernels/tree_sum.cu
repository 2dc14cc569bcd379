// y = x0 + x1 + ... as a tree over the inputs. Memory-bound: one read of each input and one write,
// 16 bytes a thread where all are aligned alike. Deterministic.
#include "heddle/kernels/tree_sum.h"

#include <vector>

#include "heddle/kernels/device/elementwise.cuh"

namespace heddle {
namespace {

/// The tree over up to P inputs, P a power of two: the loops unroll, and what is beyond n_inputs is
/// skipped by all threads alike.
template <int P>
struct TreeSum {
  const float* x[P];
  int n_inputs;
  float* y;

  template <int N>
  __device__ __forceinline__ Vector<float, N> read(int64_t i) const {
    Vector<float, N> partial[P];
    HEDDLE_UNROLL
    for (int k = 0; k < P; ++k)
      if (k < n_inputs) partial[k] = load<N>(x[k] + i);
    HEDDLE_UNROLL
    for (int step = 1; step < P; step *= 2) {
      HEDDLE_UNROLL
      for (int k = 0; k + step < P; k += 2 * step) {
        if (k + step >= n_inputs) continue;
        HEDDLE_UNROLL
        for (int lane = 0; lane < N; ++lane) partial[k][lane] += partial[k + step][lane];
      }
    }
    return partial[0];
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, Vector<float, N> sum) const {
    store(y + i, sum);
  }
};

template <int P>
void launch_tree_sum(const TreeSumArgs& args, StreamRef stream) {
  TreeSum<P> body{};
  std::vector<DenseOperand> operands = {{args.y, sizeof(float)}};
  for (int k = 0; k < args.n_inputs; ++k) {
    body.x[k] = args.x[k];
    operands.push_back({args.x[k], sizeof(float)});
  }
  body.n_inputs = args.n_inputs;
  body.y = args.y;
  launch_elementwise<kVectorBytes / sizeof(float)>("tree_sum_kernel", args.n, operands, body,
                                                   stream);
}

}  // namespace

void cuda::tree_sum(const TreeSumArgs& args, StreamRef stream) {
  if (args.n == 0) return;
  if (args.n_inputs <= 2) return launch_tree_sum<2>(args, stream);
  if (args.n_inputs <= 4) return launch_tree_sum<4>(args, stream);
  if (args.n_inputs <= 8) return launch_tree_sum<8>(args, stream);
  launch_tree_sum<16>(args, stream);
}

}  // namespace heddle
