#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/apps/support/bench.h"
#include "heddle/core/dtype.h"
#include "heddle/kernels/provider.h"

namespace heddle::bench {

/// One operation, direction, shape and dtype, with every way to compute it that this build has.
struct Case {
  std::string name;  ///< "conv2d/forward/simple_cnn.conv2/float32"
  DType dtype = DType::kFloat32;
  double flops = 0.0;  ///< 0 where memory, not arithmetic, bounds the operation.
  double bytes = 0.0;  ///< Read and written at least once.
  /// Allocates and fills what the sides need. The first one is heddle's native kernel.
  std::function<std::vector<Side>()> prepare;
};

std::vector<Case> conv2d_cases();
std::vector<Case> linear_cases();
std::vector<Case> image_cases();   ///< ReLU, pooling and batch-norm.
std::vector<Case> memory_cases();  ///< Other operations that memory bounds.

/// n small random numbers (zeros where integers).
std::shared_ptr<void> random_buffer(int64_t n, DType dtype);

/// The native kernel, and heddle's vendor version where there is one that can. `buffers` is what
/// the arguments point into.
template <class Args, class Buffers>
void add_own_sides(const Args& args, const Candidates<Args>& candidates, const Buffers& buffers,
                   std::vector<Side>& sides) {
  sides.push_back({"native", [=, held = buffers] { candidates.native(args); }});
  if (candidates.vendor != nullptr && candidates.vendor_supports(args))
    sides.push_back({"vendor", [=] { candidates.vendor(args); }});
}

}  // namespace heddle::bench
