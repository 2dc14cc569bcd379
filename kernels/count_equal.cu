// How many elements are equal. Thrust does it: one call, once a step, of a batch's labels, and a
// sum of integers is the same in every order.
#include "heddle/kernels/count_equal.h"

#include "heddle/kernels/device/thrust.cuh"

namespace heddle {

void cuda::count_equal(const CountEqualArgs& args, StreamRef stream) {
  run_thrust("count_equal", stream, 0, [args](const auto& policy) {
    const int64_t count =
        thrust::inner_product(policy, args.a, args.a + args.n, args.b, int64_t{0},
                              thrust::plus<int64_t>(), thrust::equal_to<int64_t>());
    thrust::fill_n(policy, args.count, 1, count);
  });
}

}  // namespace heddle
