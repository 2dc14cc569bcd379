// A permutation as a stable sort of Philox keys: a function of the stream alone, so the same bits
// as on the CPU. Thrust does it: a radix sort of ours would be a hundred lines for a call an epoch.
#include "heddle/kernels/permutation.h"

#include "heddle/kernels/device/thrust.cuh"

namespace heddle {
namespace {

struct KeyOf {
  Rng rng;
  HEDDLE_INLINE uint64_t operator()(int64_t i) const { return permutation_key(rng, i); }
};

constexpr int64_t kPairBytes = sizeof(uint64_t) + sizeof(int64_t);  // a key and its index

}  // namespace

void cuda::permutation(const PermutationArgs& args, StreamRef stream) {
  if (args.n == 0) return;
  const DeviceScratch scratch(args.n * int64_t{sizeof(uint64_t)}, stream);
  run_thrust("permutation", stream, args.n * kPairBytes + 4 * kThrustAlignment,
             [args, keys = scratch.as<uint64_t>()](const auto& policy) {
               thrust::tabulate(policy, keys, keys + args.n, KeyOf{args.rng});
               thrust::sequence(policy, args.order, args.order + args.n);
               thrust::stable_sort_by_key(policy, keys, keys + args.n, args.order);
             });
}

}  // namespace heddle
