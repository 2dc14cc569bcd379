#include "heddle/kernels/reduce.h"

#include <algorithm>

#include "heddle/core/tape.h"
#include "heddle/kernels/count_equal.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/broadcast.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

/// x's shape with size 1 along `dims`; all of them where `dims` is empty.
Shape reduced_shape(const char* op, const Tensor& x, const Dims& dims) {
  if (dims.empty()) return Shape::filled(x.dim(), 1);
  Shape shape = x.shape();
  Dims seen = Dims::filled(x.dim(), 0);
  for (const int64_t dim : dims) {
    const int d = wrap_dim(op, dim, x.dim());
    HEDDLE_CHECK(seen[d] == 0, "{}: dimension {} is named twice in {}", op, d, dims);
    seen[d] = 1;
    shape[d] = 1;
  }
  return shape;
}

/// `shape` without the dimensions that were reduced.
Shape dropped_shape(const char* op, const Tensor& x, const Dims& dims) {
  Shape shape;
  if (dims.empty()) return shape;
  Dims reduced = Dims::filled(x.dim(), 0);
  for (const int64_t dim : dims) reduced[wrap_dim(op, dim, x.dim())] = 1;
  for (int i = 0; i < x.dim(); ++i)
    if (reduced[i] == 0) shape.push_back(x.shape()[i]);
  return shape;
}

void check_not_over_nothing(const char* op, const Tensor& x, const Shape& kept) {
  HEDDLE_CHECK(x.numel() > 0 || numel(kept) == 0,
               "{}: over nothing: x is {}, expected at least one element to reduce", op, x.shape());
}

/// A tensor of `shape` (keepdim) and the same seen in the shape that the caller asked for.
struct Result {
  Tensor full;
  Tensor y;
};

Result make_result(const char* op, const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const Tensor full =
      Tensor::empty(reduced_shape(op, x, dims), dtype, MemoryFormat::kContiguous, x.device());
  const Shape shape = keepdim ? full.shape() : dropped_shape(op, x, dims);
  return {full, full.as_strided(shape, strides_for(shape), 0)};
}

/// dy, seen in x's shape: the same gradient for all elements that went into one result.
Tensor spread(const Tensor& dy, const Shape& kept, const Shape& x_shape) {
  return expand(reshape(dy, kept), x_shape);
}

}  // namespace

Tensor sum(const Tensor& given, const Dims& dims, bool keepdim) {
  const Tensor x = autocast_to_float32(given);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::kInt64;
  auto [full, y] = make_result("sum", x, dims, keepdim, dtype);
  HEDDLE_DISPATCH(x.device(), reduce, {full.view(), x.view(), ReduceOp::kSum});
  record("sum", y, {x}, [kept = full.shape(), shape = x.shape()](const Tensor& dy) {
    return Gradients{spread(dy, kept, shape)};
  });
  return y;
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  HEDDLE_CHECK(is_floating(x.dtype()), "mean: x is {}, expected a floating dtype", x.dtype());
  auto [full, y] = make_result("mean", x, dims, keepdim, x.dtype());
  check_not_over_nothing("mean", x, full.shape());
  const double scale =
      static_cast<double>(full.numel()) / static_cast<double>(std::max<int64_t>(1, x.numel()));
  HEDDLE_DISPATCH(x.device(), reduce, {full.view(), x.view(), ReduceOp::kSum, scale});
  record("mean", y, {x}, [scale, kept = full.shape(), shape = x.shape()](const Tensor& dy) {
    return Gradients{spread(mul(dy, scale), kept, shape)};
  });
  return y;
}

Tensor max(const Tensor& x, const Dims& dims, bool keepdim) {
  auto [full, y] = make_result("max", x, dims, keepdim, x.dtype());
  check_not_over_nothing("max", x, full.shape());
  HEDDLE_DISPATCH(x.device(), reduce, {full.view(), x.view(), ReduceOp::kMax});
  if (needs_grad({x})) {
    record("max", y, {x}, [kept = full.shape(), saved = SavedTensor(x)](const Tensor& dy) {
      const Tensor from = saved.get();
      const Tensor index =
          Tensor::empty(kept, DType::kInt64, MemoryFormat::kContiguous, from.device());
      HEDDLE_DISPATCH(from.device(), argmax, {index.view(), from.view()});
      Tensor dx = Tensor::empty_like(from);
      fill_(dx, 0.0);
      const Tensor dense_dy = dense(reshape(dy, kept), MemoryFormat::kContiguous);
      HEDDLE_DISPATCH(dx.device(), max_backward, {dx.view(), dense_dy.view(), index.view()});
      return Gradients{dx};
    });
  }
  return y;
}

Tensor argmax(const Tensor& x, int64_t dim, bool keepdim) {
  auto [full, y] = make_result("argmax", x, {dim}, keepdim, DType::kInt64);
  check_not_over_nothing("argmax", x, full.shape());
  HEDDLE_DISPATCH(x.device(), argmax, {full.view(), x.view()});
  return y;
}

Tensor count_equal(const Tensor& a, const Tensor& b) {
  HEDDLE_CHECK(a.dtype() == DType::kInt64 && b.dtype() == DType::kInt64,
               "count_equal: a is {} and b {}, expected int64", a.dtype(), b.dtype());
  HEDDLE_CHECK(a.shape() == b.shape() && a.device() == b.device(),
               "count_equal: a is {} on {}, b {} on {}, expected one shape on one device",
               a.shape(), a.device().to_string(), b.shape(), b.device().to_string());
  const Tensor dense_a = dense(a, MemoryFormat::kContiguous);
  const Tensor dense_b = dense(b, MemoryFormat::kContiguous);
  const Tensor count = Tensor::empty({}, DType::kInt64, MemoryFormat::kContiguous, a.device());
  HEDDLE_DISPATCH(
      a.device(), count_equal,
      {count.data<int64_t>(), dense_a.data<int64_t>(), dense_b.data<int64_t>(), a.numel()});
  return count;
}

bool all_finite(const Tensor& x) {
  const Tensor packed = dense(x.detach());
  const Tensor finite = Tensor::empty({}, DType::kUInt8, MemoryFormat::kContiguous, x.device());
  HEDDLE_DISPATCH(
      x.device(), all_finite,
      {static_cast<bool*>(finite.raw_data()), packed.raw_data(), packed.numel(), packed.dtype()});
  return finite.item() != 0.0;
}

}  // namespace heddle
