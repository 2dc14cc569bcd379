#include "heddle/kernels/pool2d.h"

#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

constexpr int64_t kLargestBytePlace = 256;  // window elements that a uint8 can tell apart

void check_image(const char* op, const Tensor& x) {
  HEDDLE_CHECK(is_floating(x.dtype()), "{}: x is {}, expected a floating dtype", op, x.dtype());
  HEDDLE_CHECK(x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0,
               "{}: x is {}, expected (N, C, H, W) with at least one pixel", op, x.shape());
}

/// Positions of a window along one axis.
int64_t output_size(const char* op, const char* axis, int64_t size, int64_t kernel, int64_t stride,
                    int64_t pad) {
  HEDDLE_CHECK(kernel >= 1 && stride >= 1,
               "{}: kernel is {} and stride {} along {}, expected at least 1", op, kernel, stride,
               axis);
  HEDDLE_CHECK(pad >= 0 && pad <= kernel / 2,
               "{}: padding is {} along {}, expected 0 to {}, half of the kernel {}", op, pad, axis,
               kernel / 2, kernel);
  HEDDLE_CHECK(size + 2 * pad >= kernel,
               "{}: input is {} along {}, with padding {} smaller than the kernel {} (stride {})",
               op, size, axis, pad, kernel, stride);
  return (size + 2 * pad - kernel) / stride + 1;
}

Pool2dGeometry geometry_of(const char* op, const Tensor& x, const Pool2dOptions& options) {
  check_image(op, x);
  const auto [kernel_h, kernel_w] = options.kernel;
  const auto [stride_h, stride_w] = options.stride.value_or(options.kernel);
  const auto [pad_h, pad_w] = options.padding;
  Pool2dGeometry g;
  g.dtype = x.dtype();
  g.batch = x.size(0), g.channels = x.size(1), g.in_h = x.size(2), g.in_w = x.size(3);
  g.kernel_h = kernel_h, g.kernel_w = kernel_w;
  g.stride_h = stride_h, g.stride_w = stride_w;
  g.pad_h = pad_h, g.pad_w = pad_w;
  g.out_h = output_size(op, "H", g.in_h, kernel_h, stride_h, pad_h);
  g.out_w = output_size(op, "W", g.in_w, kernel_w, stride_w, pad_w);
  return g;
}

Tensor empty_image(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, like.dtype(), MemoryFormat::kChannelsLast, like.device());
}

Tensor empty_input(const Tensor& dy, const Pool2dGeometry& g) {
  return empty_image(dy, {g.batch, g.channels, g.in_h, g.in_w});
}

Tensor max_backward(const Tensor& incoming, const Tensor& places, const Pool2dGeometry& g) {
  const Tensor dy = dense(incoming, MemoryFormat::kChannelsLast);
  Tensor dx = empty_input(dy, g);
  const MaxPool2dBackwardArgs args{g, dx.raw_data(), dy.raw_data(), places.raw_data(),
                                   places.dtype()};
  HEDDLE_DISPATCH_VENDORS(dy.device(), max_pool2d_backward, args, cudnn);
  return dx;
}

Tensor avg_backward(const Tensor& incoming, const Pool2dGeometry& g, bool count_include_pad) {
  const Tensor dy = dense(incoming, MemoryFormat::kChannelsLast);
  Tensor dx = empty_input(dy, g);
  const AvgPool2dBackwardArgs args{g, dx.raw_data(), dy.raw_data(), count_include_pad};
  HEDDLE_DISPATCH_VENDORS(dy.device(), avg_pool2d_backward, args, cudnn);
  return dx;
}

Tensor global_backward(const Tensor& incoming, const Shape& shape) {
  const Tensor dy = dense(incoming);
  Tensor dx = empty_image(dy, shape);
  HEDDLE_DISPATCH(
      dy.device(), global_avg_pool_backward,
      {dy.dtype(), shape[0], shape[2] * shape[3], shape[1], dx.raw_data(), dy.raw_data()});
  return dx;
}

}  // namespace

Tensor max_pool2d(const Tensor& input, const Pool2dOptions& options) {
  const Pool2dGeometry g = geometry_of("max_pool2d", input, options);
  const Tensor x = dense(input, MemoryFormat::kChannelsLast);
  Tensor y = empty_image(x, {g.batch, g.channels, g.out_h, g.out_w});
  const bool records = needs_grad({input});
  const DType place_dtype =
      g.kernel_h * g.kernel_w <= kLargestBytePlace ? DType::kUInt8 : DType::kInt64;
  const Tensor places = records ? Tensor::empty_like(y, place_dtype) : Tensor();
  const MaxPool2dForwardArgs args{g, y.raw_data(), x.raw_data(),
                                  records ? places.raw_data() : nullptr, place_dtype};
  HEDDLE_DISPATCH_CUDA_VENDOR(x.device(), max_pool2d_forward, args, cudnn);
  if (records) {
    record("max_pool2d", y, {input},
           [g, places](const Tensor& dy) { return Gradients{max_backward(dy, places, g)}; });
  }
  return y;
}

Tensor avg_pool2d(const Tensor& input, const Pool2dOptions& options) {
  const Pool2dGeometry g = geometry_of("avg_pool2d", input, options);
  const Tensor x = dense(input, MemoryFormat::kChannelsLast);
  Tensor y = empty_image(x, {g.batch, g.channels, g.out_h, g.out_w});
  const AvgPool2dForwardArgs args{g, y.raw_data(), x.raw_data(), options.count_include_pad};
  HEDDLE_DISPATCH_VENDORS(x.device(), avg_pool2d_forward, args, cudnn);
  if (needs_grad({input})) {
    record("avg_pool2d", y, {input}, [g, pad = options.count_include_pad](const Tensor& dy) {
      return Gradients{avg_backward(dy, g, pad)};
    });
  }
  return y;
}

Tensor global_avg_pool2d(const Tensor& input) {
  check_image("global_avg_pool2d", input);
  const Tensor x = dense(input, MemoryFormat::kChannelsLast);
  Tensor y = empty_image(x, {x.size(0), x.size(1), 1, 1});
  HEDDLE_DISPATCH(
      x.device(), global_avg_pool_forward,
      {x.dtype(), x.size(0), x.size(2) * x.size(3), x.size(1), y.raw_data(), x.raw_data()});
  if (needs_grad({input})) {
    record("global_avg_pool2d", y, {input},
           [shape = x.shape()](const Tensor& dy) { return Gradients{global_backward(dy, shape)}; });
  }
  return y;
}

}  // namespace heddle
