// y = f(x) elementwise and dx = dy * f'(x). Memory-bound: each byte is read and written once.
// 16-bit floats are computed in float32 and rounded once. Deterministic.
#include "heddle/kernels/unary.h"

#include <cmath>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/vector_math.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements a piece: well inside a second-level cache

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Value and derivative of each function; `derivative` is given what saves_result says.
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
    return x * cpu::normal_at(x).cdf;
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C x) {
    const auto normal = cpu::normal_at(x);
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
    return cpu::exp_of(x);
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
    return cpu::tanh_of(x);
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy * (C(1) - y * y);
  }
};
struct Sigmoid {
  template <class C>
  HEDDLE_INLINE static C value(C x) {
    return C(1) / (C(1) + cpu::exp_of(-x));
  }
  template <class C>
  HEDDLE_INLINE static C backward(C dy, C y) {
    return dy * y * (C(1) - y);
  }
};

template <class Body>
void dispatch_op(UnaryOp op, const Body& body) {
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

template <class T, class F>
void forward(const UnaryArgs& args) {
  const T* x = static_cast<const T*>(args.x);
  T* y = static_cast<T*>(args.y);
  parallel_ranges(args.n, kGrain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* px, T* py, int64_t n) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < n; ++i) py[i] = T(F::value(Compute<T>(px[i])));
        },
        x + begin, y + begin, end - begin);
  });
}

template <class T, class F>
void backward(const UnaryBackwardArgs& args) {
  const T* dy = static_cast<const T*>(args.dy);
  const T* saved = static_cast<const T*>(args.saved);
  T* dx = static_cast<T*>(args.dx);
  parallel_ranges(args.n, kGrain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* pdy, const T* ps, T* pdx, int64_t n) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < n; ++i)
            pdx[i] = T(F::backward(Compute<T>(pdy[i]), Compute<T>(ps[i])));
        },
        dy + begin, saved + begin, dx + begin, end - begin);
  });
}

}  // namespace

bool saves_result(UnaryOp op) {
  switch (op) {
    case UnaryOp::kRelu:
    case UnaryOp::kExp:
    case UnaryOp::kSqrt:
    case UnaryOp::kTanh:
    case UnaryOp::kSigmoid:
      return true;
    case UnaryOp::kGelu:
    case UnaryOp::kNeg:
    case UnaryOp::kLog:
      return false;
  }
  return false;
}

void cpu::unary_forward(const UnaryArgs& args) {
  dispatch_op(args.op, [&]<class F>() {
    dispatch_float(args.dtype, [&]<class T>() { forward<T, F>(args); });
  });
}

void cpu::unary_backward(const UnaryBackwardArgs& args) {
  dispatch_op(args.op, [&]<class F>() {
    dispatch_float(args.dtype, [&]<class T>() { backward<T, F>(args); });
  });
}

}  // namespace heddle
