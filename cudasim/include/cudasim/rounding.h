#pragma once

namespace cudasim {

/// a * b + c rounded once, to nearest even, to `digits` binary digits and no finer than the
/// subnormals below 2^min_exponent. The product must be exact in double.
double fused_multiply_add(double a, double b, double c, int digits, int min_exponent);

}  // namespace cudasim
