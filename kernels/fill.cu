// y = value for any strides, and y[i] = i. Memory-bound: one write an element, 16 bytes a thread
// where rows are dense and aligned. Deterministic.
#include "heddle/kernels/fill.h"

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/nest.cuh"

namespace heddle {
namespace {

struct Nothing {};

template <class T>
struct Fill {
  T* y;
  T value;

  template <int N>
  __device__ __forceinline__ Nothing read_at(const int64_t (&)[1]) const {
    return {};
  }
  template <int N>
  __device__ __forceinline__ void write_at(const int64_t (&at)[1], Nothing) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) out[k] = value;
    store(y + at[0], out);
  }
  template <int N>
  __device__ __forceinline__ Nothing read(int64_t) const {
    return {};
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, Nothing) const {
    write_at<N>({i}, {});
  }
};

template <class T>
struct Arange {
  T* y;

  template <int N>
  __device__ __forceinline__ Nothing read(int64_t) const {
    return {};
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, Nothing) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) out[k] = convert<T>(i + k);
    store(y + i, out);
  }
};

}  // namespace

void cuda::fill(const FillArgs& args, StreamRef stream) {
  const auto nest = cpu::make_loop_nest<1>(args.y.shape, {args.y.strides});
  dispatch_all(args.y.dtype, [&]<class T>() {
    const Fill<T> body{args.y.as<T>(), cpu::convert<T>(args.value)};
    const DenseOperand operands[] = {{body.y, sizeof(T)}};
    launch_nest<kVectorBytes / sizeof(T)>("fill_kernel", nest, operands, body, stream);
  });
}

void cuda::arange(const ArangeArgs& args, StreamRef stream) {
  dispatch_all(args.y.dtype, [&]<class T>() {
    const Arange<T> body{args.y.as<T>()};
    const DenseOperand operands[] = {{body.y, sizeof(T)}};
    launch_elementwise<kVectorBytes / sizeof(T)>("arange_kernel", args.y.numel(), operands, body,
                                                 stream);
  });
}

}  // namespace heddle
