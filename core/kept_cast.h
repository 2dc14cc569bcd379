#pragma once

#include "heddle/core/tensor.h"

/// A leaf's elements in another dtype, kept beside the leaf for as long as nobody writes to it:
/// what autocast reads of a float32 parameter, step after step. Whoever writes memory through a raw
/// pointer must call bump_version, as for the tape. Safe to call from several threads.
namespace heddle {

/// Keeps `copy` (same shape and storage order, another dtype) beside x, in place of an earlier one.
void keep_cast(const Tensor& x, Tensor copy);

/// What keep_cast was given; undefined where x was written since, or it has another dtype.
Tensor kept_cast(const Tensor& x, DType dtype);

/// Takes the copy away from x, to write x and the copy together and keep it again. Undefined where
/// there is none, where x was written since, or where somebody else still holds the copy.
Tensor take_cast(const Tensor& x);

}  // namespace heddle
