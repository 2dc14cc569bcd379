#include "heddle/kernels/binary.h"

#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/broadcast.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

void check_one_device(const char* op, const Tensor& a, const Tensor& b) {
  HEDDLE_CHECK(a.device() == b.device(), "{}: a is on {}, b on {}, expected one device", op,
               a.device().to_string(), b.device().to_string());
}

/// Both operands in the dtype that they promote to; integers become float32 for division.
std::pair<Tensor, Tensor> promoted(const char* op, const Tensor& a, const Tensor& b) {
  check_one_device(op, a, b);
  const DType common = promote(a.dtype(), b.dtype());
  return {to(a, common), to(b, common)};
}

/// The storage order of a result: that of the first operand that has its full shape.
MemoryFormat result_format(const Shape& shape, const Tensor& a, const Tensor& b) {
  if (a.shape() == shape) return format_of(a);
  return b.shape() == shape ? format_of(b) : MemoryFormat::kContiguous;
}

void run(BinaryOp op, const Tensor& y, const Tensor& a, const Tensor& b, double alpha) {
  HEDDLE_DISPATCH(y.device(), binary,
                  {y.view(), expanded_view(a, y.shape()).view(), expanded_view(b, y.shape()).view(),
                   op, alpha});
}

/// a op b without recording; a and b have one dtype.
Tensor compute(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, double alpha = 1.0,
               std::optional<DType> dtype = {}) {
  const Shape shape = broadcast(name, a.shape(), b.shape());
  Tensor y =
      Tensor::empty(shape, dtype.value_or(a.dtype()), result_format(shape, a, b), a.device());
  run(op, y, a, b, alpha);
  return y;
}

/// A number joins in as alpha times this, so that it is not rounded to a narrow dtype first.
Tensor one_like(const char* op, const Tensor& x, double value) {
  HEDDLE_CHECK(is_floating(x.dtype()) || value == std::nearbyint(value),
               "{}: x is {}, expected a whole number, not {}", op, x.dtype(), value);
  return full({}, 1.0, x.dtype(), x.device());
}

Tensor add_scaled(const char* name, const Tensor& first, const Tensor& second, double alpha) {
  const auto [a, b] = promoted(name, first, second);
  Tensor y = compute(name, BinaryOp::kAdd, a, b, alpha);
  if (needs_grad({a, b})) {
    record(name, y, {a, b},
           [alpha, a_shape = a.shape(), b_shape = b.shape(), a_needs = a.requires_grad(),
            b_needs = b.requires_grad()](const Tensor& dy) {
             Gradients gradients(2);
             if (a_needs) gradients[0] = sum_to_shape(dy, a_shape);
             if (b_needs) gradients[1] = sum_to_shape(dy, b_shape);
             if (b_needs && alpha != 1.0) gradients[1] = mul(gradients[1], alpha);
             return gradients;
           });
  }
  return y;
}

Tensor compare(const char* name, BinaryOp op, const Tensor& first, const Tensor& second) {
  const NoGradGuard no_grad;
  const auto [a, b] = promoted(name, first, second);
  return compute(name, op, a, b, 1.0, DType::kUInt8);
}

/// `other` as an operand that `target` op= other can use.
Tensor in_place_operand(const char* op, const Tensor& target, const Tensor& other) {
  for (int i = 0; i < target.dim(); ++i)
    HEDDLE_CHECK(target.shape()[i] <= 1 || target.strides()[i] != 0,
                 "{}: target of shape {} is an expanded view (strides {}): elements share memory",
                 op, target.shape(), target.strides());
  check_broadcasts_to(op, other.shape(), target.shape());
  check_one_device(op, target, other);
  check_in_place(op, target);
  HEDDLE_CHECK(is_floating(target.dtype()) || !is_floating(other.dtype()),
               "{}: target is {} and cannot hold the result with {}", op, target.dtype(),
               other.dtype());
  const NoGradGuard no_grad;
  return apart_from(target, to(other, target.dtype()));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return add_scaled("add", a, b, 1.0); }
Tensor sub(const Tensor& a, const Tensor& b) { return add_scaled("sub", a, b, -1.0); }

Tensor mul(const Tensor& first, const Tensor& second) {
  const auto [a, b] = promoted("mul", first, second);
  Tensor y = compute("mul", BinaryOp::kMul, a, b);
  if (needs_grad({a, b})) {
    const bool a_needs = a.requires_grad();
    const bool b_needs = b.requires_grad();
    record("mul", y, {a, b},
           [a_shape = a.shape(), b_shape = b.shape(), saved_a = SavedTensor(b_needs ? a : Tensor()),
            saved_b = SavedTensor(a_needs ? b : Tensor())](const Tensor& dy) {
             Gradients gradients(2);
             if (saved_b.defined()) gradients[0] = sum_to_shape(mul(dy, saved_b.get()), a_shape);
             if (saved_a.defined()) gradients[1] = sum_to_shape(mul(dy, saved_a.get()), b_shape);
             return gradients;
           });
  }
  return y;
}

Tensor div(const Tensor& first, const Tensor& second) {
  check_one_device("div", first, second);
  const bool floating = is_floating(promote(first.dtype(), second.dtype()));
  const auto [a, b] = floating ? promoted("div", first, second)
                               : std::pair(to(first, DType::kFloat32), to(second, DType::kFloat32));
  Tensor y = compute("div", BinaryOp::kDiv, a, b);
  if (needs_grad({a, b})) {
    const bool b_needs = b.requires_grad();
    record("div", y, {a, b},
           [a_shape = a.shape(), b_shape = b.shape(), a_needs = a.requires_grad(),
            saved_b = SavedTensor(b),
            saved_y = SavedTensor(b_needs ? y : Tensor())](const Tensor& dy) {
             Gradients gradients(2);
             const Tensor da = div(dy, saved_b.get());
             if (a_needs) gradients[0] = sum_to_shape(da, a_shape);
             if (saved_y.defined())  // d(a/b)/db = -y/b
               gradients[1] = sum_to_shape(neg(mul(da, saved_y.get())), b_shape);
             return gradients;
           });
  }
  return y;
}

Tensor add(const Tensor& a, double b) {
  Tensor y = compute("add", BinaryOp::kAdd, a, one_like("add", a, b), b);
  record("add", y, {a}, [](const Tensor& dy) { return Gradients{dy}; });
  return y;
}

Tensor mul(const Tensor& a, double b) {
  Tensor y = compute("mul", BinaryOp::kMul, a, one_like("mul", a, b), b);
  record("mul", y, {a}, [b](const Tensor& dy) { return Gradients{mul(dy, b)}; });
  return y;
}

/// Divides by the number as the dtype has it, and so has the bits of one division; a whole number
/// is divided as float32.
Tensor div(const Tensor& a, double b) {
  const DType dtype = is_floating(a.dtype()) ? a.dtype() : DType::kFloat32;
  const Tensor divisor = full({}, b, dtype, a.device());
  return div(a, divisor);
}

void add_(Tensor& target, const Tensor& other, double alpha) {
  const Tensor b = in_place_operand("add_", target, other);
  run(BinaryOp::kAdd, target, target, b, alpha);
  record_in_place("add_", target, {other},
                  [alpha, shape = other.shape(), dtype = other.dtype(),
                   needs = other.requires_grad()](const Tensor& dy) {
                    if (!needs) return Gradients{dy, Tensor()};
                    return Gradients{dy, to(mul(sum_to_shape(dy, shape), alpha), dtype)};
                  });
}

void add_(Tensor& target, double value) {
  const Tensor one = in_place_operand("add_", target, one_like("add_", target, value));
  run(BinaryOp::kAdd, target, target, one, value);
  record_in_place("add_", target, {}, [](const Tensor& dy) { return Gradients{dy}; });
}

void mul_(Tensor& target, const Tensor& other) {
  const Tensor b = in_place_operand("mul_", target, other);
  const Tensor old = needs_grad({other}) ? clone(target.detach()) : Tensor();
  // With other == target, b is overwritten too: keep a copy for backward.
  const Tensor factor = b.storage() == target.storage() && needs_grad({target}) ? clone(b) : b;
  run(BinaryOp::kMul, target, target, b, 1.0);
  record_in_place("mul_", target, {other},
                  [shape = other.shape(), dtype = other.dtype(), saved_b = SavedTensor(factor),
                   saved_old = SavedTensor(old)](const Tensor& dy) {
                    Gradients gradients{mul(dy, saved_b.get()), Tensor()};
                    if (saved_old.defined())
                      gradients[1] = to(sum_to_shape(mul(dy, saved_old.get()), shape), dtype);
                    return gradients;
                  });
}

void mul_(Tensor& target, double value) {
  const Tensor one = in_place_operand("mul_", target, one_like("mul_", target, value));
  run(BinaryOp::kMul, target, target, one, value);
  record_in_place("mul_", target, {},
                  [value](const Tensor& dy) { return Gradients{mul(dy, value)}; });
}

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", BinaryOp::kEq, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", BinaryOp::kNe, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", BinaryOp::kLt, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", BinaryOp::kLe, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", BinaryOp::kLt, b, a); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", BinaryOp::kLe, b, a); }

Tensor accumulate_gradients(const Tensor& a, const Tensor& b) {
  const NoGradGuard no_grad;
  return add(a, to(b, a.dtype()));
}

}  // namespace heddle
