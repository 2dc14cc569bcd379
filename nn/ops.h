#pragma once

#include <optional>
#include <utility>

#include "heddle/core/rng.h"
#include "heddle/core/tensor.h"

/// Every public operation, one declaration each. All are differentiable unless said otherwise:
/// where an input requires grad and recording is on, they append to the tape. Inputs must be on one
/// device and are never moved in silence.
namespace heddle {

// Making tensors ------------------------------------------------------------------------------
Tensor full(const Shape& shape, double value, DType dtype = DType::kFloat32,
            Device device = Device::cpu());
Tensor zeros(const Shape& shape, DType dtype = DType::kFloat32, Device device = Device::cpu());
Tensor ones(const Shape& shape, DType dtype = DType::kFloat32, Device device = Device::cpu());
Tensor arange(int64_t n, DType dtype = DType::kInt64, Device device = Device::cpu());
/// Draw i of the stream fills element i in logical row-major order: the same bits on every device.
Tensor rand(const Shape& shape, Rng rng, double low = 0.0, double high = 1.0,
            DType dtype = DType::kFloat32, Device device = Device::cpu());
Tensor randn(const Shape& shape, Rng rng, double mean = 0.0, double stddev = 1.0,
             DType dtype = DType::kFloat32, Device device = Device::cpu());

/// 0 .. n-1 in a random order, int64 (n): the same on every device, and core/rng.h's permutation.
Tensor randperm(int64_t n, const Rng& rng, Device device = Device::cpu());

// Copies and casts ----------------------------------------------------------------------------
Tensor clone(const Tensor& x);
/// x itself where it is already dense in `format`, else a dense copy.
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::kContiguous);
Tensor to(const Tensor& x, DType dtype);
/// x itself where it is on `device`, else a dense copy there. Between devices, the copy runs in the
/// order of the current streams of both, and nobody waits. Between host and device, the host waits
/// until it is done, unless `asynchronous` is true and the host's memory is pinned: then a target
/// on the host must not be read, and a source on the host not be written, before the device's
/// stream has got there.
Tensor to(const Tensor& x, Device device, bool asynchronous = false);
/// In-place; not differentiable through `target`'s old value.
void fill_(Tensor& target, double value);
void copy_(Tensor& target, const Tensor& source);  ///< Broadcasts, converts, between devices too.
/// A dense copy of x in host memory that devices copy from by themselves, in builds with CUDA and
/// on machines with a device; elsewhere a plain copy. Not differentiable.
Tensor pinned(const Tensor& x);

// Views ---------------------------------------------------------------------------------------
/// One size may be -1. A view where strides allow it, else a copy in logical order.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor expand(const Tensor& x, const Shape& shape);  ///< Stride 0 along broadcast dimensions.

// Elementwise, with broadcasting ------------------------------------------------------------------
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
void add_(Tensor& target, const Tensor& other, double alpha = 1.0);  ///< target += alpha * other
void add_(Tensor& target, double value);
void mul_(Tensor& target, const Tensor& other);
void mul_(Tensor& target, double value);
Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);  ///< NaN stays NaN.
Tensor gelu(const Tensor& x);  ///< Exact (erf) form.
/// Comparisons give uint8 zeros and ones. Not differentiable.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

// Reductions ----------------------------------------------------------------------------------
/// Over all dimensions where `dims` is empty.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Gradient goes to the first maximum; NaN wins over every number.
Tensor max(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);  ///< int64; not differentiable.
/// How many elements of a are b's: int64 (). Both int64, of one shape, contiguous or copied so.
/// Correct predictions are count_equal(argmax(logits, 1), labels). Not differentiable; waits for
/// the device, so not for a step that is captured into a graph.
Tensor count_equal(const Tensor& a, const Tensor& b);
/// True where no element is NaN or infinite. Not differentiable.
bool all_finite(const Tensor& x);

// Layers' operations ----------------------------------------------------------------------------
Tensor matmul(const Tensor& a, const Tensor& b);
/// y = x w^T + b, with ReLU on top where asked. w is (out, in), x is (..., in); or w is
/// (out, C, H, W) and x is an image batch (N, C, H, W): the flatten is then implied and no pass
/// over memory is made for it. `bias` (out) may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool fuse_relu = false);

struct Conv2dOptions {
  std::pair<int64_t, int64_t> stride{1, 1};  ///< (rows, columns)
  std::pair<int64_t, int64_t> padding{0, 0};
  std::pair<int64_t, int64_t> dilation{1, 1};
  int64_t groups = 1;
  bool fuse_relu = false;  ///< y = max(0, conv + bias)
};
/// x (N, C, H, W), weight (O, C/groups, kH, kW), bias (O) or undefined -> (N, O, H', W'),
/// channels-last.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options = {});

struct Pool2dOptions {
  std::pair<int64_t, int64_t> kernel{2, 2};
  std::optional<std::pair<int64_t, int64_t>> stride = std::nullopt;  ///< The kernel size.
  std::pair<int64_t, int64_t> padding{0, 0};  ///< At most half of the kernel.
  bool count_include_pad = true;              ///< Average only.
};
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor global_avg_pool2d(const Tensor& x);  ///< Adaptive to 1x1.

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< Weight of the new value.
  double eps = 1e-5;
  bool fuse_relu = false;
};
/// Over (N, H, W) of an image or N of (N, C). Running statistics are moved in training (unbiased
/// variance); they may be undefined. Errors: one value per channel in training.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean,
                  Tensor& running_var, const BatchNormOptions& options = {});

/// Zeroes each element with `probability` and scales the rest by 1/(1-probability). The mask is a
/// function of `rng` and the element's logical place alone.
Tensor dropout(const Tensor& x, double probability, const Rng& rng, bool training = true);

Tensor log_softmax(const Tensor& x);  ///< Over the last dimension.

enum class Reduction { kMean, kSum, kNone };
struct CrossEntropyOptions {
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0.0;
  int64_t ignore_index = -100;
};
/// Fused log-softmax and negative log-likelihood. logits (N, C), labels int64 (N). Mean is over the
/// labels that are not ignored; 0 with zero gradients where there are none.
/// Errors: a label outside [0, C) that is not ignore_index, naming row and value.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options = {});

}  // namespace heddle
