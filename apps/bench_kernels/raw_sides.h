#pragma once

#include <string_view>
#include <vector>

#include "heddle/apps/support/bench.h"
#include "heddle/kernels/binary.h"
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/linear.h"
#include "heddle/kernels/reduce.h"
#include "heddle/kernels/unary.h"

/// The same work by oneDNN. Sides named "oneDNN ..." run its primitives alone, everything prepared
/// in the layout that the side is named for; "vendor" is heddle's use of it on heddle's tensors.
namespace heddle::bench {

enum class Direction { kForward, kData, kWeight };
std::string_view name_of(Direction direction);

struct ConvWork {
  Conv2dGeometry geometry;
  bool bias = true;  ///< Forward and weight: with bias and its gradient.
  bool relu = true;  ///< Forward.
};

struct LinearWork {
  DType dtype;
  int64_t rows, in, out;
  bool relu;
};

/// Operations that memory bounds, on images (batch, channels, size, size).
enum class ImageOp { kMaxPool, kAveragePool, kGlobalAverage, kBatchNorm, kBatchNormRelu, kDropout };

struct ImageWork {
  ImageOp op;
  DType dtype;
  int64_t batch, channels, size;
};

using Sides = std::vector<Side>;

#ifdef HEDDLE_WITH_ONEDNN
void add_raw_sides(const ConvWork& work, Direction direction, Sides& sides);
void add_raw_sides(const LinearWork& work, Direction direction, Sides& sides);
void add_raw_sides(const ImageWork& work, Direction direction, Sides& sides);
void add_raw_matmul(DType dtype, int64_t n, Sides& sides);
void add_raw_unary(UnaryOp op, bool forward, int64_t n, DType dtype, Sides& sides);
/// The sum or product of (rows, cols) and (rows, cols), or (1, cols) where `broadcast`.
void add_raw_binary(BinaryOp op, int64_t rows, int64_t cols, bool broadcast, DType dtype,
                    Sides& sides);
void add_raw_cast(int64_t n, DType from, DType to, Sides& sides);
void add_raw_reduce(ReduceOp op, int64_t rows, int64_t cols, int64_t to_rows, int64_t to_cols,
                    DType dtype, Sides& sides);
void add_raw_log_softmax(int64_t rows, int64_t cols, DType dtype, Sides& sides);
void limit_onednn_to_active_isa();
#else
template <class... Work>
void add_raw_sides(const Work&...) {}
inline void add_raw_matmul(DType, int64_t, Sides&) {}
inline void add_raw_unary(UnaryOp, bool, int64_t, DType, Sides&) {}
inline void add_raw_binary(BinaryOp, int64_t, int64_t, bool, DType, Sides&) {}
inline void add_raw_cast(int64_t, DType, DType, Sides&) {}
inline void add_raw_reduce(ReduceOp, int64_t, int64_t, int64_t, int64_t, DType, Sides&) {}
inline void add_raw_log_softmax(int64_t, int64_t, DType, Sides&) {}
inline void limit_onednn_to_active_isa() {}
#endif

}  // namespace heddle::bench
