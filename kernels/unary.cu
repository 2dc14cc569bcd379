// y = f(x) elementwise and dx = dy * f'(x) over dense arrays (n). Memory-bound: each byte is read
// and written once, 16 bytes a thread and access. Computed in float32 by the functors that the CPU
// uses too, rounded once. Deterministic.
#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/elementwise.cuh"
#include "heddle/kernels/unary_ops.h"

namespace heddle {
namespace {

template <class T, class F>
struct Forward {
  T* y;
  const T* x;

  template <int N>
  __device__ __forceinline__ Vector<T, N> read(int64_t i) const {
    return load<N>(x + i);
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, const Vector<T, N>& in) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) out[k] = from_float<T>(F::value(to_float(in[k])));
    store(y + i, out);
  }
};

template <class T, class F>
struct Backward {
  T* dx;
  const T* dy;
  const T* saved;

  template <int N>
  struct Inputs {
    Vector<T, N> dy, saved;
  };
  template <int N>
  __device__ __forceinline__ Inputs<N> read(int64_t i) const {
    return {load<N>(dy + i), load<N>(saved + i)};
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, const Inputs<N>& in) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k)
      out[k] = from_float<T>(F::backward(to_float(in.dy[k]), to_float(in.saved[k])));
    store(dx + i, out);
  }
};

template <class T, class F>
void launch_forward(const UnaryArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const Forward<T, F> body{static_cast<T*>(args.y), static_cast<const T*>(args.x)};
  const DenseOperand operands[] = {{body.y, sizeof(T)}, {body.x, sizeof(T)}};
  launch_elementwise<kWidth>("unary_forward_elementwise_kernel", args.n, operands, body, stream);
}

template <class T, class F>
void launch_backward(const UnaryBackwardArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const Backward<T, F> body{static_cast<T*>(args.dx), static_cast<const T*>(args.dy),
                            static_cast<const T*>(args.saved)};
  const DenseOperand operands[] = {
      {body.dx, sizeof(T)}, {body.dy, sizeof(T)}, {body.saved, sizeof(T)}};
  launch_elementwise<kWidth>("unary_backward_elementwise_kernel", args.n, operands, body, stream);
}

}  // namespace

void cuda::unary_forward(const UnaryArgs& args, StreamRef stream) {
  unary_ops::dispatch(args.op, [&]<class F>() {
    dispatch_device_float("unary_forward", args.dtype,
                          [&]<class T>() { launch_forward<T, F>(args, stream); });
  });
}

void cuda::unary_backward(const UnaryBackwardArgs& args, StreamRef stream) {
  unary_ops::dispatch(args.op, [&]<class F>() {
    dispatch_device_float("unary_backward", args.dtype,
                          [&]<class T>() { launch_backward<T, F>(args, stream); });
  });
}

}  // namespace heddle
