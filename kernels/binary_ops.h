#pragma once

#include "heddle/kernels/binary.h"

/// The operations on two elements, for the CPU's loops and the CUDA kernels alike.
namespace heddle::binary_ops {

/// What elements of T are computed in for results of type Y: float32 for 16-bit floats; unsigned
/// for int64 arithmetic, where overflow is then defined.
template <class Y, class T>
using Compute = std::conditional_t<
    std::is_same_v<Y, int64_t>, uint64_t,
    std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>>;

struct Add {
  template <class C>
  HEDDLE_INLINE static C apply(C a, C b, C alpha) {
    return static_cast<C>(a + alpha * b);
  }
};
struct Mul {
  template <class C>
  HEDDLE_INLINE static C apply(C a, C b, C alpha) {
    return static_cast<C>(a * alpha * b);
  }
};
struct Div {
  template <class C>
  HEDDLE_INLINE static C apply(C a, C b, C) {
    return static_cast<C>(a / b);
  }
};
struct Eq {
  template <class C>
  HEDDLE_INLINE static bool apply(C a, C b, C) {
    return a == b;
  }
};
struct Ne {
  template <class C>
  HEDDLE_INLINE static bool apply(C a, C b, C) {
    return a != b;
  }
};
struct Lt {
  template <class C>
  HEDDLE_INLINE static bool apply(C a, C b, C) {
    return a < b;
  }
};
struct Le {
  template <class C>
  HEDDLE_INLINE static bool apply(C a, C b, C) {
    return a <= b;
  }
};

/// args.alpha as the computation takes it.
template <class Y, class T>
Compute<Y, T> alpha_of(const BinaryArgs& args) {
  using Number = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  return static_cast<Compute<Y, T>>(static_cast<Number>(args.alpha));
}

/// Calls body.operator()<F, Y, T>() with the functor, the result's type and the operands'.
template <class Body>
void dispatch(const BinaryArgs& args, const Body& body) {
  const auto compute = [&]<class F>() {
    dispatch_all(args.a.dtype, [&]<class T>() { body.template operator()<F, T, T>(); });
  };
  const auto compare = [&]<class F>() {
    dispatch_all(args.a.dtype, [&]<class T>() { body.template operator()<F, uint8_t, T>(); });
  };
  switch (args.op) {
    case BinaryOp::kAdd:
      return compute.template operator()<Add>();
    case BinaryOp::kMul:
      return compute.template operator()<Mul>();
    case BinaryOp::kDiv:
      return dispatch_float(args.a.dtype,
                            [&]<class T>() { body.template operator()<Div, T, T>(); });
    case BinaryOp::kEq:
      return compare.template operator()<Eq>();
    case BinaryOp::kNe:
      return compare.template operator()<Ne>();
    case BinaryOp::kLt:
      return compare.template operator()<Lt>();
    case BinaryOp::kLe:
      return compare.template operator()<Le>();
  }
}

}  // namespace heddle::binary_ops
