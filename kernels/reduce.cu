// y = scale * sum of x, or the maximum of x. Sums are kept in float32 (int64 for integers) over
// some dozens of terms of a thread, and added in float64 over threads and parts, in an order that
// follows from the shape: the error does not grow with the size, and each run has the same bits.
// Memory-bound: each element is read once.
#include "heddle/kernels/reduce.h"

#include <limits>

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/reduction.cuh"

namespace heddle {
namespace {

template <class T>
struct Sum {
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Value = std::conditional_t<kInteger, uint64_t, float>;  // unsigned: overflow is defined
  using Total = std::conditional_t<kInteger, uint64_t, double>;
  using Result = std::conditional_t<kInteger, int64_t, T>;
  double scale;

  __device__ __forceinline__ Value identity() const { return Value(0); }
  __device__ __forceinline__ Value take(Value sum, T x, int64_t) const {
    return sum + convert<Value>(x);
  }
  __device__ __forceinline__ Total total(Value sum) const { return static_cast<Total>(sum); }
  __device__ __forceinline__ Total combine(Total a, Total b) const { return a + b; }
  __device__ __forceinline__ Result result(Total total) const {
    if constexpr (kInteger) return static_cast<int64_t>(total);
    if constexpr (!kInteger) return convert<T>(total * scale);
  }
};

template <class T>
struct Max {
  using Value = std::conditional_t<std::is_integral_v<T>, T, float>;
  using Total = std::conditional_t<sizeof(Value) == 1, int32_t, Value>;  // shuffles move 4 bytes
  using Result = T;

  __device__ __forceinline__ Value identity() const {
    return std::is_integral_v<T> ? std::numeric_limits<Value>::lowest() : Value(-INFINITY);
  }
  template <class C>
  __device__ __forceinline__ static C larger(C best, C x) {
    return x > best || x != x ? x : best;  // once NaN, NaN
  }
  __device__ __forceinline__ Value take(Value best, T x, int64_t) const {
    return larger(best, convert<Value>(x));
  }
  __device__ __forceinline__ Total total(Value best) const { return best; }
  __device__ __forceinline__ Total combine(Total a, Total b) const { return larger(a, b); }
  __device__ __forceinline__ Result result(Total best) const {
    return convert<T>(static_cast<Value>(best));
  }
};

template <class Op, class T>
void launch_reduce(const char* name, const ReduceArgs& args, const cpu::ReduceNest& nest,
                   const Op& op, StreamRef stream) {
  Reduction<Op, T>(nest, op, static_cast<const T*>(args.x.data),
                   static_cast<typename Op::Result*>(args.y.data), stream)
      .run(name);
}

}  // namespace

void cuda::reduce(const ReduceArgs& args, StreamRef stream) {
  const auto nest = cpu::make_reduce_nest(args.x.shape, args.x.strides, args.y.shape,
                                          args.y.strides, cpu::ReduceOrder::kMemory);
  dispatch_all(args.x.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      fail("reduce: float64 is computed on the CPU, found it on a CUDA device");
    } else {
      if (args.op == ReduceOp::kSum)
        return launch_reduce<Sum<T>, T>("reduce_sum_kernel", args, nest, {args.scale}, stream);
      launch_reduce<Max<T>, T>("reduce_max_kernel", args, nest, {}, stream);
    }
  });
}

}  // namespace heddle
