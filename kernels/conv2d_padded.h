#pragma once

#include "heddle/kernels/conv2d.h"

namespace heddle::cpu {

/// conv2d_forward of few input channels (wants_padded_images), for T = float and double.
template <class T>
void conv2d_forward_padded(const Conv2dForwardArgs& args);

}  // namespace heddle::cpu
