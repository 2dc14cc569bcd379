#include "heddle/kernels/matmul.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/broadcast.h"

namespace heddle {
namespace {

/// An operand as (batch dimensions..., rows, cols) of `batch`, with stride 0 where it broadcasts.
Tensor expand_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  Strides strides = Dims::filled(batch.size(), 0);
  const int own = x.dim() - 2;
  for (int i = 0; i < own; ++i)
    if (x.size(i) != 1) strides[batch.size() - own + i] = x.strides()[i];
  for (int i = own; i < x.dim(); ++i) {
    shape.push_back(x.size(i));
    strides.push_back(x.strides()[i]);
  }
  return x.as_strided(shape, strides, x.offset());
}

/// The stride that walks all batch dimensions as one, or -1 where none does.
int64_t batch_stride(const Tensor& x) {
  int64_t stride = 0;
  int64_t expected = -1;  // of the next dimension outwards
  for (int i = x.dim() - 3; i >= 0; --i) {
    if (x.size(i) == 1) continue;
    if (expected >= 0 && x.strides()[i] != expected) return -1;
    if (expected < 0) stride = x.strides()[i];
    expected = x.strides()[i] * x.size(i);
  }
  return stride;
}

struct Operand {
  Tensor tensor;
  int64_t stride;
};

Operand as_batch(const Tensor& x, const Shape& batch) {
  Tensor expanded = expand_batch(x, batch);
  int64_t stride = batch_stride(expanded);
  if (stride < 0) {
    expanded = contiguous(expanded);
    stride = batch_stride(expanded);
  }
  return {expanded, stride};
}

Shape batch_of(const Tensor& x) {
  Shape batch;
  for (int i = 0; i + 2 < x.dim(); ++i) batch.push_back(x.size(i));
  return batch;
}

/// Both operands have two dimensions or more; nothing is recorded.
Tensor multiply(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast("matmul", batch_of(a), batch_of(b));
  const Operand left = as_batch(a, batch);
  const Operand right = as_batch(b, batch);
  const int d = batch.size();
  const int64_t m = left.tensor.size(d);
  const int64_t k = left.tensor.size(d + 1);
  const int64_t n = right.tensor.size(d + 1);
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Tensor c = Tensor::empty(shape, a.dtype(), MemoryFormat::kContiguous, a.device());
  const Strides& sa = left.tensor.strides();
  const Strides& sb = right.tensor.strides();
  const MatmulArgs args{a.dtype(),
                        numel(batch),
                        m,
                        n,
                        k,
                        c.raw_data(),
                        left.tensor.raw_data(),
                        left.stride,
                        sa[d],
                        sa[d + 1],
                        right.tensor.raw_data(),
                        right.stride,
                        sb[d],
                        sb[d + 1]};
  HEDDLE_DISPATCH_CUDA_VENDOR(a.device(), matmul, args, cublas);
  return c;
}

Tensor turned(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[x.dim() - 1], shape[x.dim() - 2]);
  std::swap(strides[x.dim() - 1], strides[x.dim() - 2]);
  return x.as_strided(shape, strides, x.offset());
}

/// A vector as a matrix of one row (left) or column (right).
Tensor as_matrix(const Tensor& x, bool left) {
  if (x.dim() != 1) return x.detach();
  const int64_t n = x.size(0);
  const int64_t stride = x.strides()[0];
  return left ? x.as_strided({1, n}, {n * stride, stride}, x.offset())
              : x.as_strided({n, 1}, {stride, stride}, x.offset());
}

/// Puts the shape of a result back where an operand was a vector.
Tensor with_shape(const Tensor& dense, const Shape& shape) {
  return dense.as_strided(shape, strides_for(shape), dense.offset());
}

void check_operands(const Tensor& a, const Tensor& b) {
  HEDDLE_CHECK(a.dim() >= 1 && b.dim() >= 1,
               "matmul: a is {} and b is {}, expected one dimension or more", a.shape(), b.shape());
  HEDDLE_CHECK(is_floating(a.dtype()), "matmul: a is {}, expected a floating dtype", a.dtype());
  HEDDLE_CHECK(a.dtype() == b.dtype(), "matmul: a is {} and b is {}, expected the same dtype",
               a.dtype(), b.dtype());
  HEDDLE_CHECK(a.device() == b.device(), "matmul: a is on {} and b on {}", a.device().to_string(),
               b.device().to_string());
  const int64_t k = a.size(a.dim() - 1);
  const int64_t found = b.size(b.dim() == 1 ? 0 : b.dim() - 2);
  HEDDLE_CHECK(k == found, "matmul: a is {} and b is {}, expected {} rows in b, found {}",
               a.shape(), b.shape(), k, found);
}

Shape output_shape(const Tensor& a, const Tensor& b, const Shape& of_matrices) {
  Shape shape;
  for (int i = 0; i < of_matrices.size(); ++i) {
    const bool is_row = i == of_matrices.size() - 2;
    const bool is_col = i == of_matrices.size() - 1;
    if ((is_row && a.dim() == 1) || (is_col && b.dim() == 1)) continue;
    shape.push_back(of_matrices[i]);
  }
  return shape;
}

}  // namespace

Tensor matmul(const Tensor& given_a, const Tensor& given_b) {
  const Tensor a = autocast(given_a), b = autocast(given_b);
  check_operands(a, b);
  const Tensor left = as_matrix(a, true);
  const Tensor right = as_matrix(b, false);
  const Tensor product = multiply(left, right);
  Tensor y = with_shape(product, output_shape(a, b, product.shape()));
  if (!needs_grad({a, b})) return y;
  record("matmul", y, {a, b},
         [a_shape = a.shape(), b_shape = b.shape(), matrices = product.shape(),
          wants_a = a.requires_grad(), wants_b = b.requires_grad(), saved_a = SavedTensor(left),
          saved_b = SavedTensor(right)](const Tensor& gradient) {
           const Tensor dense_dy = contiguous(gradient);
           const Tensor dy = with_shape(dense_dy, matrices);
           Gradients gradients(2);
           if (wants_a) {
             const Tensor da =
                 sum_to_shape(multiply(dy, turned(saved_b.get())), saved_a.get().shape());
             gradients[0] = with_shape(da, a_shape);
           }
           if (wants_b) {
             const Tensor db =
                 sum_to_shape(multiply(turned(saved_a.get()), dy), saved_b.get().shape());
             gradients[1] = with_shape(db, b_shape);
           }
           return gradients;
         });
  return y;
}

}  // namespace heddle
