#pragma once

#include <cmath>

#include "heddle/kernels/unary.h"
#include "heddle/kernels/vector_math.h"

/// The elementwise functions, for the CPU's loops and the CUDA kernels alike: value and derivative;
/// `backward` is given the result or the input, as saves_result says. C is float or double.
/// A new function is a functor here, its name in UnaryOp and in saves_result.
namespace heddle::unary_ops {

struct Relu {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return x < C(0) ? C(0) : x;  // this way round NaN stays NaN
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return y > C(0) || y != y ? dy : C(0);
  }
};
struct Gelu {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return x * math::normal_at(x).cdf;
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C x) {
    const auto normal = math::normal_at(x);
    return dy * (normal.cdf + x * normal.density);
  }
};
struct Neg {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return -x;
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C) {
    return -dy;
  }
};
struct Exp {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return math::exp_of(x);
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy * y;
  }
};
struct Log {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return std::log(x);
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C x) {
    return dy / x;
  }
};
struct Sqrt {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return std::sqrt(x);
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy / (C(2) * y);
  }
};
struct Tanh {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return math::tanh_of(x);
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy * (C(1) - y * y);
  }
};
struct Sigmoid {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return C(1) / (C(1) + math::exp_of(-x));
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy * y * (C(1) - y);
  }
};

/// Calls body.operator()<F>() with the functor of `op`.
template <class Body>
void dispatch(UnaryOp op, const Body& body) {
  switch (op) {
    case UnaryOp::kRelu:
      return body.template operator()<Relu>();
    case UnaryOp::kGelu:
      return body.template operator()<Gelu>();
    case UnaryOp::kNeg:
      return body.template operator()<Neg>();
    case UnaryOp::kExp:
      return body.template operator()<Exp>();
    case UnaryOp::kLog:
      return body.template operator()<Log>();
    case UnaryOp::kSqrt:
      return body.template operator()<Sqrt>();
    case UnaryOp::kTanh:
      return body.template operator()<Tanh>();
    case UnaryOp::kSigmoid:
      return body.template operator()<Sigmoid>();
  }
}

}  // namespace heddle::unary_ops
