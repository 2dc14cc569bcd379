// y = f(x) elementwise and dx = dy * f'(x). Memory-bound: each byte is read and written once.
// 16-bit floats are computed in float32 and rounded once. Deterministic.
#include "heddle/kernels/unary.h"

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/unary_ops.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements a piece: well inside a second-level cache

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

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
  unary_ops::dispatch(args.op, [&]<class F>() {
    dispatch_float(args.dtype, [&]<class T>() { forward<T, F>(args); });
  });
}

void cpu::unary_backward(const UnaryBackwardArgs& args) {
  unary_ops::dispatch(args.op, [&]<class F>() {
    dispatch_float(args.dtype, [&]<class T>() { backward<T, F>(args); });
  });
}

}  // namespace heddle
