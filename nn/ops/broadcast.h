#pragma once

#include <string_view>

#include "heddle/core/tensor.h"

/// What broadcasting ops share. None of these records on the tape.
namespace heddle {

/// x seen in a larger shape: strides 0 along the dimensions that are broadcast.
Tensor expanded_view(const Tensor& x, const Shape& shape);

/// Errors: `from` does not broadcast to exactly `to`.
void check_broadcasts_to(std::string_view op, const Shape& from, const Shape& to);

/// The gradient of an operand of `shape` that was broadcast to dy's shape: dy summed over the
/// dimensions that broadcasting added or stretched. dy itself where there are none.
Tensor sum_to_shape(const Tensor& dy, const Shape& shape);

/// `source`, or a copy where writing `target` element by element would overwrite what is still to
/// be read: the same storage seen in another way.
Tensor apart_from(const Tensor& target, const Tensor& source);

}  // namespace heddle
