// The sum of squares of many gradients, and whether all of them are finite: one launch for 64
// tensors, each element read once, partial results of blocks combined in a fixed order. The result
// stays in device memory. Not Thrust's: the order of its sums follows from the card's number of
// multiprocessors, and it has one range a call, whose result the host waits for. Squares are added
// in float64, which holds the square of every float32.
#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/finite.cuh"
#include "heddle/kernels/device/reduction.cuh"
#include "heddle/kernels/device/slots.cuh"
#include "heddle/kernels/optimizer.h"

namespace heddle {
namespace {

template <class T>
struct Squares {
  using Value = double;
  using Total = double;
  using Result = double;

  __device__ __forceinline__ double identity() const { return 0.0; }
  __device__ __forceinline__ double take(double sum, T x, int64_t) const {
    const double value = static_cast<double>(to_float(x));
    return sum + value * value;
  }
  __device__ __forceinline__ double total(double sum) const { return sum; }
  __device__ __forceinline__ double combine(double a, double b) const { return a + b; }
  __device__ __forceinline__ double result(double total) const { return total; }
};

/// parts[block] = the operation over the block's piece of a gradient.
template <class Op, class T>
__global__ void __launch_bounds__(kSlotThreads)
    gradients_reduce_kernel(const SlotTable table, const Op op, typename Op::Total* parts) {
  const SlotPiece piece = slot_piece(table, blockIdx.x);
  const T* g = static_cast<const T*>(piece.slot.g);
  Vector<T, kSlotWidth> vectors[kSlotVectors];
  const int64_t first = piece.vector_begin + threadIdx.x;
  HEDDLE_UNROLL
  for (int u = 0; u < kSlotVectors; ++u)
    if (first + u * kSlotThreads < piece.vector_end)
      vectors[u] = load<kSlotWidth>(g + (first + u * kSlotThreads) * kSlotWidth);
  typename Op::Value value = op.identity();
  HEDDLE_UNROLL
  for (int u = 0; u < kSlotVectors; ++u) {
    if (first + u * kSlotThreads >= piece.vector_end) continue;
    HEDDLE_UNROLL
    for (int k = 0; k < kSlotWidth; ++k) value = op.take(value, vectors[u][k], 0);
  }
  for (int64_t i = piece.single_begin + threadIdx.x; i < piece.single_end; i += kSlotThreads)
    value = op.take(value, g[i], 0);
  const auto total = block_reduce<kSlotThreads>(
      op.total(value), [&](const auto& a, const auto& b) { return op.combine(a, b); });
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

int64_t count_blocks(std::span<const ParamSlot> slots) {
  int64_t blocks = 0;
  for (const ParamSlot& slot : slots) blocks += ceil_div(slot.n, kSlotPiece);
  return blocks;
}

/// Op<T> reads the gradients of dtype T as Element<T>; all have the same Total and Result.
template <template <class> class Op, class Result, template <class> class Element>
void launch_gradients_reduce(const char* name, std::span<const ParamSlot> slots, Result* result,
                             StreamRef stream) {
  using Total = typename Op<float>::Total;
  const int64_t n_parts = count_blocks(slots);
  const DeviceScratch scratch(n_parts * static_cast<int64_t>(sizeof(Total)), stream);
  Total* parts = scratch.as<Total>();
  int64_t first = 0;
  for_each_slot_dtype(name, slots, [&]<class T>() {
    for_each_table<T>(slots, [&](const SlotTable& table, unsigned blocks) {
      launch(name, gradients_reduce_kernel<Op<T>, Element<T>>,
             {.grid = blocks, .block = kSlotThreads}, stream, table, Op<T>{}, parts + first);
      first += blocks;
    });
  });
  launch_combine(name, n_parts, Loops<1>(), 1, Op<float>{}, parts, result, stream);
}

template <class T>
using Itself = T;

}  // namespace

void cuda::gradient_squares(const GradientSquaresArgs& args, StreamRef stream) {
  launch_gradients_reduce<Squares, double, Itself>("gradient_squares", args.slots, args.sum,
                                                   stream);
}

void cuda::gradients_finite(const GradientsFiniteArgs& args, StreamRef stream) {
  launch_gradients_reduce<AllFinite, bool, FloatWord>("gradients_finite", args.slots, args.finite,
                                                      stream);
}

}  // namespace heddle
