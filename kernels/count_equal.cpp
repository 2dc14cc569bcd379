#include "heddle/kernels/count_equal.h"

#include <atomic>

#include "heddle/kernels/host/loop_nest.h"

namespace heddle {

void cpu::count_equal(const CountEqualArgs& args) {
  std::atomic<int64_t> count{0};  // of integers: the order changes nothing
  parallel_ranges(args.n, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
    int64_t equal = 0;
    for (int64_t i = begin; i < end; ++i) equal += args.a[i] == args.b[i] ? 1 : 0;
    count += equal;
  });
  *args.count = count;
}

}  // namespace heddle
