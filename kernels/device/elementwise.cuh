#pragma once

#include <algorithm>
#include <span>

#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/vector.cuh"

/// Loops over dense arrays, each byte read and written once: vectors of up to 16 bytes from the
/// first aligned element on, and single elements before and after.
///
/// A body is a struct of pointers with
///   template <int N> auto read(int64_t i) const;           // N neighbours from element i on
///   template <int N> void write(int64_t i, auto in) const; // what becomes of them
/// All reads of a thread are issued before its first write, so that several are under way.
namespace heddle {

/// One operand of a dense loop, as alignment sees it.
struct DenseOperand {
  const void* data;
  int64_t size;  // bytes an element
};

/// Elements 0 .. n-1 as `head` single ones, `n_vectors` vectors and a tail.
struct DenseLoop {
  int64_t n;
  int64_t head;
  int64_t n_vectors;
  unsigned vector_blocks;  // the block behind them takes the single elements
};

/// Single elements before the first at which all operands are aligned to `width` of their elements,
/// -1 where there is none.
inline int64_t unaligned_head(int width, std::span<const DenseOperand> operands) {
  int64_t head = -1;
  for (const DenseOperand& operand : operands) {
    if (operand.data == nullptr) continue;
    const auto element = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data) /
                                              static_cast<uint64_t>(operand.size));
    const int64_t own = (width - element % width) % width;
    if (head >= 0 && own != head) return -1;
    head = own;
  }
  return head;
}

namespace {

constexpr int kElementwiseThreads = 256;
constexpr int kElementwiseUnroll = 4;  // vectors of a thread: 64 bytes of each operand under way

template <int N, class Body>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_kernel(const DenseLoop loop, const Body body) {
  if (N > 1 && blockIdx.x == loop.vector_blocks) {  // fewer than 2 N single elements
    const int64_t single = threadIdx.x;
    const int64_t i = single < loop.head ? single : single + loop.n_vectors * N;
    if (i < loop.n) body.template write<1>(i, body.template read<1>(i));
    return;
  }
  const int64_t first =
      int64_t{blockIdx.x} * (kElementwiseThreads * kElementwiseUnroll) + threadIdx.x;
  decltype(body.template read<N>(0)) inputs[kElementwiseUnroll];
  HEDDLE_UNROLL
  for (int k = 0; k < kElementwiseUnroll; ++k) {
    const int64_t vector = first + k * kElementwiseThreads;
    if (vector < loop.n_vectors) inputs[k] = body.template read<N>(loop.head + vector * N);
  }
  HEDDLE_UNROLL
  for (int k = 0; k < kElementwiseUnroll; ++k) {
    const int64_t vector = first + k * kElementwiseThreads;
    if (vector < loop.n_vectors) body.template write<N>(loop.head + vector * N, inputs[k]);
  }
}

template <int N, class Body>
void launch_elementwise_width(const char* name, int64_t n, int64_t head, const Body& body,
                              StreamRef stream) {
  const int64_t n_vectors = (n - head) / N;
  const unsigned blocks = grid_for(n_vectors, kElementwiseThreads * kElementwiseUnroll);
  const unsigned single = n_vectors * N < n ? 1 : 0;
  launch(name, elementwise_kernel<N, Body>, {.grid = blocks + single, .block = kElementwiseThreads},
         stream, DenseLoop{n, head, n_vectors, blocks}, body);
}

/// Runs `body` over n elements of `operands`, which are those it reads and writes.
template <int N, class Body>
void launch_elementwise(const char* name, int64_t n, std::span<const DenseOperand> operands,
                        const Body& body, StreamRef stream) {
  if (n == 0) return;
  const int64_t head = unaligned_head(N, operands);
  if (N == 1 || head < 0) return launch_elementwise_width<1>(name, n, 0, body, stream);
  launch_elementwise_width<N>(name, n, std::min(head, n), body, stream);
}

}  // namespace
}  // namespace heddle
