#pragma once

#include <string_view>
#include <vector>

#include "heddle/apps/support/bench.h"
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/linear.h"

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
enum class ImageOp { kRelu, kMaxPool, kAveragePool, kGlobalAverage, kBatchNorm };

struct ImageWork {
  ImageOp op;
  DType dtype;
  int64_t batch, channels, size;
};

#ifdef HEDDLE_WITH_ONEDNN
void add_raw_sides(const ImageWork& work, Direction direction, std::vector<Side>& sides);
void add_raw_sides(const ConvWork& work, Direction direction, std::vector<Side>& sides);
void add_raw_sides(const LinearWork& work, Direction direction, std::vector<Side>& sides);
void limit_onednn_to_active_isa();
#else
inline void add_raw_sides(const ConvWork&, Direction, std::vector<Side>&) {}
inline void add_raw_sides(const LinearWork&, Direction, std::vector<Side>&) {}
inline void add_raw_sides(const ImageWork&, Direction, std::vector<Side>&) {}
inline void limit_onednn_to_active_isa() {}
#endif

}  // namespace heddle::bench
