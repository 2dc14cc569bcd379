// Whether no element is NaN or infinite: none has an exponent of all ones. One read an element.
#include "heddle/kernels/device/finite.cuh"
#include "heddle/kernels/device/reduction.cuh"
#include "heddle/kernels/reduce.h"

namespace heddle {
namespace {

template <class T>
void launch_all_finite(const AllFiniteArgs& args, StreamRef stream) {
  using Word = FloatWord<T>;
  const auto nest = cpu::make_reduce_nest({args.n}, {1}, {1}, {1}, cpu::ReduceOrder::kMemory);
  Reduction<AllFinite<T>, Word>(nest, {}, static_cast<const Word*>(args.x), args.finite, stream)
      .run("all_finite_kernel");
}

}  // namespace

void cuda::all_finite(const AllFiniteArgs& args, StreamRef stream) {
  dispatch_float(args.dtype, [&]<class T>() { launch_all_finite<T>(args, stream); });
}

}  // namespace heddle
