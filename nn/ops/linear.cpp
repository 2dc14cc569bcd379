#include "heddle/kernels/linear.h"

#include "heddle/kernels/dispatch.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/affine.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

struct Sizes {
  DType dtype;
  DType dw_dtype;
  int64_t rows, in, out;
};

/// Shapes and storage order of the gradients of x and w.
struct Layouts {
  Shape x, w;
  MemoryFormat format;
};

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  HEDDLE_CHECK(is_floating(x.dtype()), "linear: x is {}, expected a floating dtype", x.dtype());
  HEDDLE_CHECK(weight.dim() == 2 || weight.dim() == 4,
               "linear: weight is {}, expected (out, in) or (out, C, H, W)", weight.shape());
  if (weight.dim() == 2) {
    HEDDLE_CHECK(x.dim() >= 1 && x.size(x.dim() - 1) == weight.size(1),
                 "linear: x is {}, expected (..., {}) for weight {}", x.shape(), weight.size(1),
                 weight.shape());
  } else {
    bool same = x.dim() == 4;
    for (int i = 1; same && i < 4; ++i) same = x.size(i) == weight.size(i);
    HEDDLE_CHECK(same, "linear: x is {}, expected (N, {}, {}, {}) for weight {}", x.shape(),
                 weight.size(1), weight.size(2), weight.size(3), weight.shape());
  }
  check_weight_and_bias("linear", x, weight, bias);
}

Shape output_shape(const Tensor& x, const Tensor& weight) {
  if (weight.dim() == 4) return {x.size(0), weight.size(0)};
  Shape shape = x.shape();
  shape[shape.size() - 1] = weight.size(0);
  return shape;
}

int64_t rows_of(const Tensor& x, const Tensor& weight) {
  if (weight.dim() == 4) return x.size(0);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  return rows;
}

Tensor backward_data(const Sizes& sizes, const Layouts& layouts, const Tensor& dy,
                     const Tensor& w) {
  Tensor dx = Tensor::empty(layouts.x, sizes.dtype, layouts.format, dy.device());
  const LinearBackwardDataArgs args{sizes.dtype,   sizes.rows,    sizes.in,    sizes.out,
                                    dx.raw_data(), dy.raw_data(), w.raw_data()};
  HEDDLE_DISPATCH_VENDORS(dy.device(), linear_backward_data, args, cublas);
  return dx;
}

/// dw, and db where asked.
Gradients backward_weight(const Sizes& sizes, const Layouts& layouts, const Tensor& dy,
                          const Tensor& x, bool with_bias) {
  Tensor dw = Tensor::empty(layouts.w, sizes.dw_dtype, layouts.format, dy.device());
  Tensor db;
  if (with_bias)
    db = Tensor::empty({sizes.out}, sizes.dw_dtype, MemoryFormat::kContiguous, dy.device());
  const LinearBackwardWeightArgs args{
      sizes.dtype,  sizes.rows,    sizes.in,
      sizes.out,    dw.raw_data(), with_bias ? db.raw_data() : nullptr,
      x.raw_data(), dy.raw_data(), sizes.dw_dtype};
  HEDDLE_DISPATCH_VENDORS(dy.device(), linear_backward_weight, args, cublas);
  return {dw, db};
}

/// On the CPU the sums, which are float32, reach a float32 weight without a pass to convert them.
DType gradient_dtype(const Tensor& x, const Tensor& given_weight) {
  const bool direct =
      x.device().type == DeviceType::kCpu && given_weight.dtype() == DType::kFloat32;
  return direct ? DType::kFloat32 : x.dtype();
}

}  // namespace

Tensor linear(const Tensor& given_x, const Tensor& given_weight, const Tensor& given_bias,
              bool fuse_relu) {
  const Tensor x = autocast(given_x);
  const Tensor weight = autocast_operand(given_weight), bias = autocast_operand(given_bias);
  check_operands(x, weight, bias);
  // An image and its weight are read in the storage order of the weight: no pass to flatten.
  const Tensor w = weight.dim() == 4 ? dense(weight) : dense(weight, MemoryFormat::kContiguous);
  const MemoryFormat format = weight.dim() == 4 ? format_of(w) : MemoryFormat::kContiguous;
  const Tensor input = dense(x, format);
  const Tensor b = bias.defined() ? dense(bias) : bias;
  Tensor y =
      Tensor::empty(output_shape(x, weight), x.dtype(), MemoryFormat::kContiguous, x.device());
  const int64_t out = weight.size(0);
  const int64_t in =
      weight.dim() == 4 ? weight.size(1) * weight.size(2) * weight.size(3) : weight.size(1);
  const int64_t rows = rows_of(x, weight);
  const Sizes sizes{x.dtype(), gradient_dtype(x, given_weight), rows, in, out};
  const LinearForwardArgs args{x.dtype(),    rows,
                               in,           out,
                               y.raw_data(), input.raw_data(),
                               w.raw_data(), b.defined() ? b.raw_data() : nullptr,
                               fuse_relu};
  HEDDLE_DISPATCH_VENDORS(x.device(), linear_forward, args, cublas);

  const Layouts layouts{x.shape(), weight.shape(), format};
  record_affine(
      "linear", y, {x, given_weight, given_bias, input, w}, MemoryFormat::kContiguous, fuse_relu,
      [sizes, layouts](const Tensor& dy, const Tensor& saved_w) {
        return backward_data(sizes, layouts, dy, saved_w);
      },
      [sizes, layouts](const Tensor& dy, const Tensor& saved_x, bool with_bias) {
        return backward_weight(sizes, layouts, dy, saved_x, with_bias);
      });
  return y;
}

}  // namespace heddle
