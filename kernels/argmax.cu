// The place of the first maximum (of the first NaN, where there is one), and the gradient of max,
// which goes there. Each element is read once; the order of comparisons does not change the result.
// max_backward writes one element for each output, apart from each other: as many sectors.
#include <limits>

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/reduction.cuh"
#include "heddle/kernels/reduce.h"

namespace heddle {
namespace {

constexpr int64_t kNowhere = INT64_MAX;

template <class C>
struct Best {
  C value;
  int64_t index;
};

/// NaN before numbers, larger before smaller, and of equal ones the first.
template <class C>
__device__ __forceinline__ bool is_better(const Best<C>& a, const Best<C>& b) {
  const bool a_is_nan = a.value != a.value;
  const bool b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a.value != b.value) return a.value > b.value;
  return a.index < b.index;
}

template <class T>
struct Argmax {
  using Number = std::conditional_t<std::is_integral_v<T>, T, float>;
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;  // leaves no padding
  using Value = Best<Number>;
  using Total = Best<Wide>;
  using Result = int64_t;

  __device__ __forceinline__ Value identity() const {
    if constexpr (std::is_integral_v<T>) return {std::numeric_limits<T>::lowest(), kNowhere};
    if constexpr (!std::is_integral_v<T>) return {-INFINITY, kNowhere};
  }
  __device__ __forceinline__ Value take(const Value& best, T x, int64_t index) const {
    const Value candidate{convert<Number>(x), index};
    return is_better(candidate, best) ? candidate : best;
  }
  __device__ __forceinline__ Total total(const Value& best) const {
    return {static_cast<Wide>(best.value), best.index};
  }
  __device__ __forceinline__ Total combine(const Total& a, const Total& b) const {
    return is_better(a, b) ? a : b;
  }
  __device__ __forceinline__ int64_t result(const Total& best) const { return best.index; }
};

constexpr int kThreads = 256;

/// A thread for each output.
template <class T>
__global__ void __launch_bounds__(kThreads)
    max_backward_kernel(T* dx, const T* dy, const int64_t* index, int64_t n_outputs,
                        const Loops<2> of_output, const Loops<1> of_place) {
  const int64_t output = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (output >= n_outputs) return;
  int64_t offsets[2] = {0, 0};  // dx, dy
  of_output.add_offsets(output, offsets);
  int64_t place[1] = {offsets[0]};
  of_place.add_offsets(index[offsets[1]], place);
  dx[place[0]] = dy[offsets[1]];
}

}  // namespace

void cuda::argmax(const ArgmaxArgs& args, StreamRef stream) {
  const auto nest = cpu::make_reduce_nest(args.x.shape, args.x.strides, args.index.shape,
                                          args.index.strides, cpu::ReduceOrder::kLogical);
  dispatch_all(args.x.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      fail("argmax: float64 is computed on the CPU, found it on a CUDA device");
    } else {
      Reduction<Argmax<T>, T>(nest, {}, args.x.as<T>(), args.index.as<int64_t>(), stream)
          .run("argmax_kernel");
    }
  });
}

void cuda::max_backward(const MaxBackwardArgs& args, StreamRef stream) {
  const auto nest = cpu::make_reduce_nest(args.dx.shape, args.dx.strides, args.dy.shape,
                                          args.dy.strides, cpu::ReduceOrder::kLogical);
  const int64_t n_outputs = nest.kept.n_rows() * nest.kept.cols();
  if (n_outputs == 0) return;
  dispatch_device_float("max_backward", args.dx.dtype, [&]<class T>() {
    const T* dy = args.dy.as<T>();
    const int64_t* index = args.index.as<int64_t>();  // laid out as dy
    launch("max_backward_kernel", max_backward_kernel<T>,
           {.grid = grid_for(n_outputs, kThreads), .block = kThreads}, stream, args.dx.as<T>(), dy,
           index, n_outputs, loops_of(nest.kept), loops_of(nest.reduced));
  });
}

}  // namespace heddle
