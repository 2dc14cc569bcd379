#pragma once

#include "heddle/core/tensor.h"

/// What ops need to hand kernels dense memory. None of these records on the tape.
namespace heddle {

/// The storage order in which x is dense, contiguous where it is dense in neither.
MemoryFormat format_of(const Tensor& x);

/// x itself where it is dense in either order, else a contiguous copy.
Tensor dense(const Tensor& x);

/// x itself where it is dense in `format`, else such a copy.
Tensor dense(const Tensor& x, MemoryFormat format);

/// `x` in the storage order of `like` (which is dense): itself, or a copy. Incoming gradients may
/// have any strides, zero among them. Errors: shapes or dtypes differ.
Tensor in_layout_of(const Tensor& like, const Tensor& x);

}  // namespace heddle
