// y = a op b with broadcasting through strides. Memory-bound: one read of each operand and one
// write an element, 16 bytes a thread and access where rows are dense and aligned. 16-bit floats
// are computed in float32 and rounded once; integers wrap around. Deterministic.
#include "heddle/kernels/binary_ops.h"
#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/nest.cuh"

namespace heddle {
namespace {

template <class C, class T>
__device__ __forceinline__ C widened(T value) {
  if constexpr (std::is_same_v<C, float>) return to_float(value);
  if constexpr (!std::is_same_v<C, float>) return static_cast<C>(value);
}

template <class Y, class C>
__device__ __forceinline__ Y narrowed(C value) {
  if constexpr (std::is_same_v<C, float>) return from_float<Y>(value);
  if constexpr (!std::is_same_v<C, float>) return static_cast<Y>(value);
}

template <class F, class Y, class T>
struct Binary {
  using C = binary_ops::Compute<Y, T>;
  Y* y;
  const T* a;
  const T* b;
  int64_t a_step, b_step;  // in the innermost loop: 0 is read once and repeated
  C alpha;

  template <int N>
  struct Inputs {
    Vector<T, N> a, b;
  };

  template <int N>
  __device__ __forceinline__ static Vector<T, N> operand(const T* p, int64_t step) {
    if (N == 1 || step != 0) return load<N>(p);
    Vector<T, N> same;
    const T value = *p;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) same[k] = value;
    return same;
  }
  template <int N>
  __device__ __forceinline__ Inputs<N> read_at(const int64_t (&at)[3]) const {
    return {operand<N>(a + at[1], a_step), operand<N>(b + at[2], b_step)};
  }
  template <int N>
  __device__ __forceinline__ void write_at(const int64_t (&at)[3], const Inputs<N>& in) const {
    Vector<Y, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) {
      const auto result = F::apply(widened<C>(in.a[k]), widened<C>(in.b[k]), alpha);
      out[k] = narrowed<Y>(result);
    }
    store(y + at[0], out);
  }
  template <int N>
  __device__ __forceinline__ Inputs<N> read(int64_t i) const {
    return read_at<N>({i, i * a_step, i * b_step});
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, const Inputs<N>& in) const {
    write_at<N>({i, 0, 0}, in);
  }
};

template <class F, class Y, class T>
void launch_binary(const BinaryArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / std::max(sizeof(Y), sizeof(T));
  const auto nest =
      cpu::make_loop_nest<3>(args.y.shape, {args.y.strides, args.a.strides, args.b.strides});
  const Binary<F, Y, T> body{static_cast<Y*>(args.y.data),
                             static_cast<const T*>(args.a.data),
                             static_cast<const T*>(args.b.data),
                             nest.col_stride(1),
                             nest.col_stride(2),
                             binary_ops::alpha_of<Y, T>(args)};
  const DenseOperand operands[] = {{body.y, sizeof(Y)}, {body.a, sizeof(T)}, {body.b, sizeof(T)}};
  launch_nest<kWidth>("binary_kernel", nest, operands, body, stream);
}

}  // namespace

void cuda::binary(const BinaryArgs& args, StreamRef stream) {
  binary_ops::dispatch(args,
                       [&]<class F, class Y, class T>() { launch_binary<F, Y, T>(args, stream); });
}

}  // namespace heddle
