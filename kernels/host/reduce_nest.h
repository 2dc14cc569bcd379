#pragma once

#include "heddle/kernels/host/loop_nest.h"

namespace heddle::cpu {

/// The dimensions of a reduction of x to y, split in two: those that y keeps, walked over (x, y),
/// and those that are reduced, walked over x.
struct ReduceNest {
  LoopNest<2> kept;
  LoopNest<1> reduced;
};

enum class ReduceOrder {
  kMemory,  ///< Reduced dimensions in the order of x's strides.
  kLogical  ///< In their logical order.
};

/// y's sizes are x's, or 1 along reduced dimensions.
inline ReduceNest make_reduce_nest(const Shape& x_shape, const Strides& x_strides,
                                   const Shape& y_shape, const Strides& y_strides,
                                   ReduceOrder order) {
  Shape kept;
  Shape reduced;
  std::array<Strides, 2> kept_strides;
  std::array<Strides, 1> reduced_strides;
  for (int dim = 0; dim < x_shape.size(); ++dim) {
    if (x_shape[dim] == y_shape[dim]) {
      kept.push_back(x_shape[dim]);
      kept_strides[0].push_back(x_strides[dim]);
      kept_strides[1].push_back(y_strides[dim]);
    } else {
      reduced.push_back(x_shape[dim]);
      reduced_strides[0].push_back(x_strides[dim]);
    }
  }
  return {make_loop_nest<2>(kept, kept_strides),
          order == ReduceOrder::kMemory ? make_loop_nest<1>(reduced, reduced_strides)
                                        : make_ordered_nest<1>(reduced, reduced_strides)};
}

/// Elements begin .. end of a nest (counted over all its loops) as runs along its innermost loop:
/// body(offset, count), with elements col_stride(0) apart.
template <class Body>
void for_each_run(const LoopNest<1>& nest, int64_t begin, int64_t end, const Body& body) {
  const int64_t cols = nest.cols();
  while (begin < end) {
    const int64_t col = begin % cols;
    const int64_t count = std::min(cols - col, end - begin);
    body(nest.offset_of_row(begin / cols)[0] + col * nest.col_stride(0), count);
    begin += count;
  }
}

}  // namespace heddle::cpu
