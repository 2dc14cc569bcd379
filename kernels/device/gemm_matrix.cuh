#pragma once

// gemm() for one element type: puts operands into whole chunks where they are not, and chooses the
// loaders by which index has stride 1. Three of the four pairs are compiled; a along its rows with
// b along the depth (both operands transposed) is rare, and a is packed for it.

#include <optional>

#include "heddle/kernels/device/gemm.cuh"
#include "heddle/kernels/device/gemm.h"
#include "heddle/kernels/device/pack.cuh"
#include "heddle/kernels/device/turn.cuh"

namespace heddle {

/// An operand as the loaders want it, and the packed copy that it may lie in.
template <class T>
struct ReadyMatrix {
  MatrixOperand<T> operand;
  Along along;
  std::optional<DeviceScratch> copy;
};

struct MatrixExtent {
  int64_t batch, rows, depth;
};

template <class T>
int64_t whole_chunks(int64_t n) {
  constexpr int64_t kVector = 16 / static_cast<int64_t>(sizeof(T));
  return (n + kVector - 1) / kVector * kVector;
}

/// Whether lines of `length` with stride 1, `lead` apart, are whole chunks.
template <class T>
bool is_whole(const cuda::GemmMatrix& x, int64_t batch, int64_t length, int64_t lines,
              int64_t lead) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  return is_aligned<kVector>(static_cast<const T*>(x.data)) && length % kVector == 0 &&
         (lines == 1 || lead % kVector == 0) && (batch == 1 || x.batch_stride % kVector == 0);
}

/// Copies x so that lines lie along `along`.
template <class T>
void pack_matrix(ReadyMatrix<T>& ready, const cuda::GemmMatrix& x, const MatrixExtent& extent,
                 Along along, StreamRef stream) {
  // One matrix for the whole batch is copied once.
  const bool one = x.batch_stride == 0;
  const int64_t n_matrices = one ? 1 : extent.batch;
  const PackSource source = along == Along::kDepth
                                ? PackSource{n_matrices,     extent.rows,  extent.depth,
                                             x.batch_stride, x.row_stride, x.depth_stride}
                                : PackSource{n_matrices,     extent.depth,   extent.rows,
                                             x.batch_stride, x.depth_stride, x.row_stride};
  ready.copy.emplace(packed_bytes<T>(source), stream);
  ready.along = along;
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, T>;
  auto* copy = ready.copy->template as<Bits>();
  const auto* data = static_cast<const Bits*>(x.data);
  const int64_t lead = whole_chunks<T>(source.length);
  if (along == Along::kDepth && x.row_stride == 1 && x.depth_stride != 1) {
    turn(copy, data,
         {.groups = n_matrices,
          .out = extent.depth,
          .padded_out = lead,
          .in = extent.rows,
          .taps_h = 1,
          .taps_w = 1,
          .group_stride = x.batch_stride,
          .out_stride = x.depth_stride},
         stream);
  } else if (packed_bytes<T>(source) > 0) {
    pack(copy, data, source, stream);
  }
  ready.operand = {ready.copy->template as<T>(),
                   along == Along::kDepth ? extent.rows : whole_chunks<T>(extent.rows),
                   one ? 0 : source.lines * lead, lead};
}

/// `only_depth`: no other way of lying is compiled.
template <class T>
void make_ready(ReadyMatrix<T>& ready, const cuda::GemmMatrix& x, const MatrixExtent& extent,
                bool only_depth, StreamRef stream) {
  const auto [batch, rows, depth] = extent;
  const auto as_it_is = [&](Along along, int64_t lead) {
    ready.operand = {static_cast<const T*>(x.data), extent.rows, x.batch_stride, lead};
    ready.along = along;
  };
  if (x.depth_stride == 1 && is_whole<T>(x, batch, depth, rows, x.row_stride)) {
    as_it_is(Along::kDepth, x.row_stride);
  } else if (only_depth) {
    pack_matrix(ready, x, extent, Along::kDepth, stream);
  } else if (x.row_stride == 1 && is_whole<T>(x, batch, rows, depth, x.depth_stride)) {
    as_it_is(Along::kRows, x.depth_stride);
  } else {
    const bool turned = x.row_stride == 1 && x.depth_stride != 1;
    pack_matrix(ready, x, extent, turned ? Along::kRows : Along::kDepth, stream);
  }
}

template <class T>
GemmOutput<T> dense_output(const cuda::GemmArgs& args) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  GemmOutput<T> out{};
  out.data = static_cast<T*>(args.c);
  out.m = args.sizes.m;
  out.n = args.sizes.n;
  out.batch_stride = out.m * out.n;
  out.row_stride = out.n;
  out.bias = static_cast<const T*>(args.bias);
  out.relu = args.relu;
  out.wide = is_aligned<kVector>(out.data) && out.n % kVector == 0;
  return out;
}

template <class T>
void gemm_of_type(const cuda::GemmArgs& args, StreamRef stream) {
  const cuda::GemmSizes& sizes = args.sizes;
  if (sizes.m == 0 || sizes.n == 0 || sizes.batch == 0) return;
  ReadyMatrix<T> a, b;
  make_ready(b, args.b, {sizes.batch, sizes.n, sizes.k}, false, stream);
  make_ready(a, args.a, {sizes.batch, sizes.m, sizes.k}, b.along == Along::kDepth, stream);
  const GemmOutput<T> out = dense_output<T>(args);
  using AlongDepth = OperandKind<MatrixLoader, Along::kDepth>;
  using AlongRows = OperandKind<MatrixLoader, Along::kRows>;
  if (b.along == Along::kDepth) {
    run_gemm<AlongDepth, AlongDepth>(sizes, a.operand, b.operand, out, INT64_MAX, stream);
  } else if (a.along == Along::kDepth) {
    run_gemm<AlongDepth, AlongRows>(sizes, a.operand, b.operand, out, INT64_MAX, stream);
  } else {
    run_gemm<AlongRows, AlongRows>(sizes, a.operand, b.operand, out, INT64_MAX, stream);
  }
}

}  // namespace heddle
